"""FLOPs of a device: which op counts, what is covered, rates and shares of peak."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.flops import FlopsResult, analyze
from gpuperf_analyzers.hookspecs import FlopFormula, Peak
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace

BF16 = ["c10::BFloat16", "c10::BFloat16"]


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def analyzed(
    trace: KinetoTrace, tmp_path: Path, config: Config, device: Any = 0
) -> tuple[FlopsResult, dict[str, Value]]:
    result = analyze(read_trace(trace.write(tmp_path / "t.json")), config, device)
    return result, {v.name: v for v in result.metrics()}


def product(t: KinetoTrace, at: float, runs: tuple[float, float], **options: Any) -> None:
    """A 64x32 @ 32x16 product, 65,536 FLOP, running on the GPU in `runs`."""
    dtypes = options.pop("dtypes", BF16)
    t.op("aten::mm", at, 5, dims=[[64, 32], [32, 16]], dtypes=dtypes)
    t.launch(options.pop("kernel", "gemm"), at + 1, runs, **options)


MM = 2 * 64 * 32 * 16


def test_a_linear_layer_and_the_product_inside_it_count_once(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.op("aten::linear", 0, 20, dims=[[64, 32], [16, 32], [16]], dtypes=[*BF16, BF16[0]])
    t.op("aten::addmm", 5, 10, dims=[[16], [64, 32], [32, 16]], dtypes=[*BF16, BF16[0]])
    t.launch("gemm", 6, (30, 40))
    result, values = analyzed(t, tmp_path, config)
    assert [(o.name, o.calls, o.flops) for o in result.ops] == [("aten::addmm", 1, MM)]
    assert values["flops"].value == MM
    assert result.ops[0].tflops == pytest.approx(MM / 10e-6 / 1e12)


def test_coverage_is_the_share_of_kernel_time_in_ops_with_a_formula(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    product(t, 0, (10, 40))
    t.op("aten::relu", 6, 5, dims=[[64, 16]], dtypes=["float"])
    t.launch("relu", 7, (40, 50))
    t.launch("unknown", 20, (50, 60), recorded=False)
    result, values = analyzed(t, tmp_path, config)
    assert values["flop_coverage"].value == pytest.approx(30 / 50)
    assert result.uncovered == (("aten::relu", 10.0),)


def test_a_bias_added_inside_a_convolution_is_covered_but_is_no_time_of_the_product(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    concrete = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]
    dims = [[2, 4, 10, 10], [6, 4, 3, 3], [6], [], [], [], []]
    t.op("aten::conv2d", 0, 30, dims=dims, dtypes=[*BF16, BF16[0]], concrete=concrete)
    inner = [dims[0], dims[1], [], [], [], []]
    t.op("aten::cudnn_convolution", 2, 10, dims=inner, dtypes=BF16,
         concrete=["", "", "[0, 0]", "[1, 1]", "[1, 1]", "1"])  # fmt: skip
    t.launch("conv", 3, (40, 60))
    t.op("aten::add_", 14, 5, dims=[[2, 6, 8, 8]], dtypes=[BF16[0]])
    t.launch("add", 15, (60, 70))
    result, values = analyzed(t, tmp_path, config)
    assert values["flop_coverage"].value == 1.0
    assert [(o.name, o.flops, o.time_us) for o in result.ops] == [
        ("aten::cudnn_convolution", 2 * 2 * 6 * 64 * 36, 20.0)
    ]


def test_where_the_inner_op_has_no_number_the_outer_one_counts(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    dims = [[2, 4, 10, 10], [6, 4, 3, 3], [], [], [], [], []]
    t.op("aten::conv2d", 0, 30, dims=dims, dtypes=BF16,
         concrete=["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"])  # fmt: skip
    t.op("aten::cudnn_convolution", 2, 10, dims=dims, dtypes=BF16)  # no scalars: no size
    t.launch("conv", 3, (40, 60))
    result, _ = analyzed(t, tmp_path, config)
    assert [(o.name, o.flops) for o in result.ops] == [("aten::conv2d", 2 * 2 * 6 * 64 * 36)]


def test_without_shapes_there_is_no_number_and_the_reason(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    t.op("aten::mm", 0, 5)
    t.launch("gemm", 1, (10, 20))
    _, values = analyzed(t, tmp_path, config)
    for name in ("flops", "tflops", "hfu"):
        assert values[name].value is None
        assert "record_shapes" in str(values[name].absent_reason)
    assert values["flop_coverage"].value == 0.0


def test_nothing_with_a_formula_is_not_counted_never_zero(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    t.op("aten::relu", 0, 5, dims=[[64, 16]], dtypes=["float"])
    t.launch("relu", 1, (10, 20))
    _, values = analyzed(t, tmp_path, config)
    assert values["flops"].value is None
    assert "not counted" in str(values["flops"].absent_reason)


def test_flops_are_the_worst_steps_and_tflops_the_median_steps(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    for i, calls in enumerate((1, 2, 1)):
        start = 100.0 * i
        with t.step(i, start, 100):
            for j in range(calls):
                product(t, start + 10 * j, (start + 50 + 20 * j, start + 60 + 20 * j))
    result, values = analyzed(t, tmp_path, config)
    # Windows: 50..150, 150..250, 250..300 (the last to its host end).
    assert result.step_flops == (MM, 2 * MM, MM)
    assert result.step_time_us == (100.0, 100.0, 50.0)
    assert values["flops"].value == 2 * MM
    assert values["flops"].at == "ProfilerStep#1"
    rates = sorted((MM / 100e-6, 2 * MM / 100e-6, MM / 50e-6))
    assert values["tflops"].value == pytest.approx(rates[1] / 1e12)
    assert values["tflops"].n == 3


def test_hfu_is_the_time_at_peak_over_the_time(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()  # H100 SXM: 989.4 dense bf16 TFLOPS
    product(t, 0, (10, 30))
    _, values = analyzed(t, tmp_path, config)
    assert values["hfu"].value == pytest.approx(MM / 989.4e12 / 20e-6)


def test_types_are_held_against_their_own_peaks(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    product(t, 0, (10, 20))
    product(t, 30, (40, 50), dtypes=["double", "double"])
    result, values = analyzed(t, tmp_path, config)
    assert result.flops_by_dtype == (("bf16", MM), ("fp64", MM))
    assert values["hfu"].value == pytest.approx((MM / 989.4e12 + MM / 67e12) / 40e-6)


@pytest.mark.parametrize(
    ("kernel", "peak"),
    [
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", 494.7),
        ("cutlass_80_tensorop_s1688gemm_128x64_nn_align4", 494.7),
        ("ampere_sgemm_128x64_tn", 67.0),
        ("some_kernel", None),
    ],
)
def test_float32_is_tf32_where_the_kernels_name_says_so(
    tmp_path: Path, config: Config, kernel: str, peak: float | None
) -> None:
    t = KinetoTrace()
    product(t, 0, (10, 30), dtypes=["float", "float"], kernel=kernel)
    _, values = analyzed(t, tmp_path, config)
    if peak is None:
        assert "fp32 from tf32" in str(values["hfu"].absent_reason)
    else:
        assert values["hfu"].value == pytest.approx(MM / (peak * 1e12) / 20e-6)


def test_the_live_run_knows_its_matmuls_and_leaves_convolutions_to_kernel_names(
    tmp_path: Path, config: Config
) -> None:
    # torch lets convolutions use TF32 unless told otherwise, matmuls only if told to.
    t = KinetoTrace(gpuperf={"schema": 1, "tf32": False})
    product(t, 0, (10, 30), dtypes=["float", "float"], kernel="cutlass_tensorop_s1688gemm")
    t.op("aten::conv2d", 40, 20, dims=[[2, 4, 10, 10], [6, 4, 3, 3], [], [], [], [], []],
         dtypes=["float", "float"],
         concrete=["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"])  # fmt: skip
    t.launch("cutlass_tensorop_s1688fprop_optimized_tf32", 42, (60, 80))
    result, _ = analyzed(t, tmp_path, config)
    assert result.flops_by_dtype == (("fp32", MM), ("tf32", 2 * 2 * 6 * 64 * 36))


def test_a_volta_has_no_tf32_so_float32_is_float32(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace(device_name="Tesla V100-SXM2-16GB")
    t.metadata["deviceProperties"][0]["numSms"] = 80
    product(t, 0, (10, 30), dtypes=["float", "float"], kernel="some_kernel")
    _, values = analyzed(t, tmp_path, config)
    assert values["hfu"].value == pytest.approx(MM / 15.7e12 / 20e-6)


@pytest.mark.parametrize(
    ("name", "sms"), [("NVIDIA H700", 132), ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16)]
)
def test_an_unknown_device_gives_no_share_of_peak_and_says_how_to_declare_one(
    tmp_path: Path, config: Config, name: str, sms: int
) -> None:
    t = KinetoTrace(device_name=name)
    t.metadata["deviceProperties"][0]["numSms"] = sms
    product(t, 0, (10, 30))
    _, values = analyzed(t, tmp_path, config)
    assert values["tflops"].value is not None
    assert "gpuperf_peaks" in str(values["hfu"].absent_reason)


def test_a_plugins_formula_and_peak_are_used_as_the_built_in_ones(tmp_path: Path) -> None:
    from gpuperf_analyzers.hookspecs import hookimpl
    from gpuperf_analyzers.registry import plugin_manager

    class Plugin:
        @hookimpl
        def gpuperf_flop_formulas(self) -> list[FlopFormula]:
            return [FlopFormula("mylib::scale", lambda call: call.dims[0][0] * call.dims[0][1])]

        @hookimpl
        def gpuperf_peaks(self) -> list[Peak]:
            return [Peak(("My Accelerator",), {"bf16": 2.0})]

    t = KinetoTrace(device_name="My Accelerator")
    t.op("mylib::scale", 0, 5, dims=[[64, 32]], dtypes=[BF16[0]])
    t.launch("scale", 1, (10, 20))
    _, values = analyzed(t, tmp_path, load_config(plugin_manager(Plugin())))
    assert values["flops"].value == 64 * 32
    assert values["hfu"].value == pytest.approx(64 * 32 / 2e12 / 10e-6)


def test_an_op_of_the_host_beside_a_gpu_does_not_count_for_the_gpu(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    product(t, 0, (10, 30))
    t.op("aten::mm", 40, 5, dims=[[64, 32], [32, 16]], dtypes=["float", "float"])
    _, values = analyzed(t, tmp_path, config)
    assert values["flops"].value == MM


def test_each_device_of_a_trace_has_its_own_flops(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    product(t, 0, (10, 30))
    for i in range(2):
        product(t, 40 + 10 * i, (60 + 10 * i, 65 + 10 * i), device=1)
    assert analyzed(t, tmp_path, config, 0)[0].flops == MM
    assert analyzed(t, tmp_path, config, 1)[0].flops == 2 * MM


def test_a_complex_product_has_no_number(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    product(t, 0, (10, 30), dtypes=["c10::complex<float>", "c10::complex<float>"])
    _, values = analyzed(t, tmp_path, config)
    assert "not counted" in str(values["flops"].absent_reason)


def test_the_attainable_bound_is_the_lower_of_peak_and_intensity_times_bandwidth(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    product(t, 0, (10, 30))
    row = analyzed(t, tmp_path, config)[0].ops[0]
    moved = 2 * (64 * 32 + 32 * 16 + 64 * 16)
    assert row.moved_bytes == moved
    assert row.intensity == pytest.approx(MM / moved)
    assert row.attainable_tflops == pytest.approx(MM / moved * 3350e9 / 1e12)


def test_on_a_cpu_coverage_is_of_op_time_on_each_thread(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::mm", 0, 30, dims=[[64, 32], [32, 16]], dtypes=["float", "float"])
    t.op("aten::relu", 30, 10, dims=[[64, 16]], dtypes=["float"])
    t.op("aten::relu", 0, 20, dims=[[64, 16]], dtypes=["float"], tid=200)
    result, values = analyzed(t, tmp_path, config, "cpu")
    assert values["flop_coverage"].value == pytest.approx(30 / (40 + 20))
    assert values["flops"].value == MM
    assert result.flops_by_dtype == (("fp32", MM),)


def test_bert_on_an_h100_adds_up_by_hand(shared_traces: Path, config: Config) -> None:
    # bert-small, 141 tokens: 4 layers of hidden 512, MLP 2048; head 512 -> 512 -> 30522.
    file = next(shared_traces.glob("tracelens-h100/gaunernst_bert*"))
    values = {v.name: v for v in analyze(read_trace(file), config, 0).metrics()}
    tokens, hidden, mlp, vocabulary = 141, 512, 2048, 30522
    layer = 4 * hidden * hidden + 2 * hidden * mlp
    products = 2 * tokens * (4 * layer + hidden * hidden + hidden * vocabulary)
    attention = 4 * 4 * tokens * tokens * hidden
    assert values["flops"].value == products + attention


def test_qwen_on_an_h100_adds_up_by_hand(shared_traces: Path, config: Config) -> None:
    # Qwen1.5-0.5B without its head, 16 x 559 tokens: 24 layers of hidden 1024, gated MLP 2816,
    # and the rotary angles: 32 frequencies by 559 positions.
    file = next(shared_traces.glob("tracelens-h100/Qwen*"))
    result = analyze(read_trace(file), config, 0)
    batch, length, hidden, mlp = 16, 559, 1024, 2816
    layer = 2 * batch * length * (4 * hidden * hidden + 3 * hidden * mlp)
    attention = 4 * batch * length * length * hidden
    assert result.step_flops == (24 * (layer + attention) + 2 * 32 * length,)
    # 8944x1024 @ 1024x2816, 48 times in 4015.501 µs of kernels.
    top = result.ops[0]
    assert (top.calls, top.flops) == (48, 48 * 2 * 8944 * 1024 * 2816)
    assert top.tflops == pytest.approx(48 * 2 * 8944 * 1024 * 2816 / top.time_us / 1e6)


@pytest.mark.parametrize(
    ("file", "experts", "hidden", "mlp", "tokens", "gate"),
    [
        ("moe_01_many_experts_few_tokens", 32, 512, 1024, 16, 64),
        ("moe_03_top1_sparse", 128, 512, 1024, 128, 16),
        ("moe_05_large_capacity", 1024, 1024, 2048, 512, 8),
    ],
)
def test_a_mixture_of_experts_on_a_b300_adds_up_by_hand(
    shared_traces: Path, config: Config, file: str, experts: int, hidden: int, mlp: int,
    tokens: int, gate: int,
) -> None:  # fmt: skip
    # Three rounds of: gate [tokens, hidden] @ [hidden, gate], then two batched vector products.
    trace = read_trace(shared_traces / "tracelens-b300-moe-micro" / f"{file}.json.gz")
    values = {v.name: v for v in analyze(trace, config, 0).metrics()}
    right = 3 * (2 * tokens * hidden * gate + 2 * 2 * experts * hidden * mlp)
    assert values["flops"].value == right
    span = analyze(trace, config, 0).window_us
    assert values["hfu"].value == pytest.approx(right / 2250e12 / (span * 1e-6))


def test_resnet18_training_on_an_mi300_adds_up_by_hand(shared_traces: Path, config: Config) -> None:
    # Multiply-adds of one image: (out channels, in channels, kernel, output size, times).
    convolutions = [
        (64, 3, 7, 112, 1),
        (64, 64, 3, 56, 4),
        (128, 64, 3, 28, 1), (128, 128, 3, 28, 3), (128, 64, 1, 28, 1),
        (256, 128, 3, 14, 1), (256, 256, 3, 14, 3), (256, 128, 1, 14, 1),
        (512, 256, 3, 7, 1), (512, 512, 3, 7, 3), (512, 256, 1, 7, 1),
    ]  # fmt: skip
    each = [n * o * i * k * k * size * size for o, i, k, size, n in convolutions]
    head = 512 * 1000
    assert sum(each) + head == 1_814_073_344  # ResNet-18's published 1.81 G multiply-adds
    # Forward, both gradients of each, and no gradient of the images.
    training = 2 * 512 * (3 * (sum(each) + head) - each[0])
    file = shared_traces / "tracelens-mi300-ddp-resnet18-no-pool/train_resnet18.json.gz"
    result = analyze(read_trace(file), config, 2)
    assert result.flops == 5 * training
    assert dict(result.flops_by_dtype) == {"bf16": 5 * training}


def test_long_attention_on_an_mi300_adds_up_by_hand(shared_traces: Path, config: Config) -> None:
    # Ten passes of 32 heads, 32,768 positions, width 128: two products each.
    file = shared_traces / "tracelens-unit-micro/sdpa_01_long_seq_low_eff.json"
    result = analyze(read_trace(file), config, 0)
    assert result.flops == 10 * 2 * 2 * 32 * 32768**2 * 128
    assert result.coverage == 1.0


def test_shapes_without_a_linked_kernel_give_no_number_and_say_so(
    shared_traces: Path, config: Config
) -> None:
    file = shared_traces / "tracelens-unit-micro/gemm_01_compute_few_tiles.json"
    values = {v.name: v for v in analyze(read_trace(file), config, 2).metrics()}
    assert "can be linked" in str(values["flops"].absent_reason)


def test_a_training_step_on_this_cpu_agrees_with_torchs_counter(
    tmp_path: Path, config: Config
) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 16 * 16, 32),
        torch.nn.Linear(32, 4),
    )
    x = torch.randn(4, 3, 16, 16)

    def step() -> None:
        model(x).square().mean().backward()

    with FlopCounterMode(display=False) as counter:
        step()
    path = tmp_path / "trace.json"
    profile = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
        record_shapes=True,
        on_trace_ready=lambda p: p.export_chrome_trace(str(path)),
    )
    with profile:
        for _ in range(3):
            step()
            profile.step()
    result = analyze(read_trace(path), config, "cpu")
    assert result.step_flops == (counter.get_total_flops(),) * 2
