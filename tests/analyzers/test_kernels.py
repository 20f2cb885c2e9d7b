"""Kernel time by kernel, op and annotation; what cannot be linked is counted and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.kernels import NO_LAUNCH, KernelsResult, analyze
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.classify import devices
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def analyzed(trace: KinetoTrace, tmp_path: Path, config: Config, device: Any = 0) -> KernelsResult:
    return analyze(read_trace(trace.write(tmp_path / "t.json")), config, device)


def test_runs_of_one_kernel_are_summed_and_spread(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    for at, length in ((0, 10), (20, 30), (60, 20)):
        t.launch("gemm", at, (100 + at, 100 + at + length))
    t.launch("add", 90, (200, 205))
    result = analyzed(t, tmp_path, config)
    gemm = result.by_kernel[0]
    assert (gemm.name, gemm.count, gemm.total_us) == ("gemm", 3, 60.0)
    assert (gemm.mean_us, gemm.median_us, gemm.min_us, gemm.max_us) == (20.0, 20.0, 10.0, 30.0)
    assert gemm.std_us == pytest.approx((200 / 3) ** 0.5)  # of these runs: n, not n - 1
    assert gemm.share == pytest.approx(60 / 65)
    assert (result.kernels, result.kernel_time_us) == (4, 65.0)


def test_an_op_owns_the_kernels_that_it_launches_itself(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    t.op("aten::linear", 0, 30, dims=[[8, 4], [2, 4]], dtypes=["float", "float"])
    t.op("aten::addmm", 5, 10, dims=[[2], [8, 4], [4, 2]], dtypes=["float", "float", "float"])
    t.launch("gemm", 6, (50, 70))
    t.launch("splitk_reduce", 8, (60, 75), stream=8)
    t.launch("bias", 20, (80, 85))
    result = analyzed(t, tmp_path, config)
    rows = {o.name: o for o in result.by_op}
    addmm = rows["aten::addmm"]
    assert (addmm.calls, addmm.kernels, addmm.time_us, addmm.busy_us) == (1, 2, 35.0, 25.0)
    assert (addmm.shapes, addmm.dtypes) == ("2 8x4 4x2", "float float float")
    assert (rows["aten::linear"].kernels, rows["aten::linear"].time_us) == (1, 5.0)
    assert result.top_ops(1) == (("aten::addmm", 35.0, 35 / 40),)


def test_shapes_tell_calls_of_one_op_apart(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    for i, rows in enumerate((64, 64, 128)):
        at = 20.0 * i
        t.op("aten::mm", at, 10, dims=[[rows, 8], [8, 4]], dtypes=["float", "float"])
        t.launch("gemm", at + 1, (100 + at, 110 + at))
    result = analyzed(t, tmp_path, config)
    assert [(o.shapes, o.calls, o.time_us) for o in result.by_op] == [
        ("64x8 8x4", 2, 20.0),
        ("128x8 8x4", 1, 10.0),
    ]


def test_kernels_without_a_launch_or_outside_of_ops_are_shown_by_name(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.launch("orphan", 0, (10, 20), recorded=False)
    t.launch("bare", 30, (40, 45))
    t.launch("node", 50, (60, 63), call="cudaGraphLaunch")
    result = analyzed(t, tmp_path, config)
    assert {o.name: o.time_us for o in result.by_op} == {
        NO_LAUNCH: 10.0,
        "(cudaLaunchKernel)": 5.0,
        "(cudaGraphLaunch)": 3.0,
    }
    assert (result.unlinked, result.unlinked_us) == (1, 10.0)
    assert (result.outside_ops, result.graph_kernels) == (2, 1)
    assert sum(o.time_us for o in result.by_op) == result.kernel_time_us == 18.0


def test_short_kernels_are_those_under_10_us(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    for at, length in ((0, 9.999), (20, 10), (40, 1), (60, 50)):
        t.launch("k", at, (100 + at, 100 + at + length))
    result = analyzed(t, tmp_path, config)
    (value,) = result.metrics()
    assert (value.name, value.value) == ("short_kernels", 0.5)
    assert result.short_us == pytest.approx(10.999)


def test_triton_kernels_belong_to_the_op_that_launched_them(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    t.op("triton_poi_fused_add_relu_0", 0, 10)
    t.launch("triton_poi_fused_add_relu_0", 2, (20, 26), call="cuLaunchKernelEx")
    result = analyzed(t, tmp_path, config)
    assert result.triton_kernels == 1
    assert result.by_kernel[0].kind == "triton"
    assert result.by_op[0].name == "triton_poi_fused_add_relu_0"


def test_annotations_and_modules_hold_what_was_launched_inside_them(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.event("outer", "user_annotation", 0, 100)
    t.event("inner", "user_annotation", 10, 20)
    t.event("inner", "user_annotation", 12, 10)  # inside its namesake: not twice
    t.event("nn.Module: Linear_0", "python_function", 5, 40)
    t.event("some_function", "python_function", 6, 30)
    t.launch("a", 15, (200, 210))
    t.launch("b", 40, (205, 220), stream=8)
    t.launch("c", 90, (230, 240))
    result = analyzed(t, tmp_path, config)
    spans = {(s.kind, s.name): (s.calls, s.kernels, s.time_us, s.busy_us) for s in result.by_span}
    assert spans == {
        ("annotation", "outer"): (1, 3, 35.0, 30.0),
        ("annotation", "inner"): (2, 1, 10.0, 10.0),
        ("module", "nn.Module: Linear_0"): (1, 2, 25.0, 20.0),
    }


def test_on_a_cpu_an_op_has_its_own_time_without_that_of_ops_inside_it(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::linear", 0, 100)
    t.op("aten::addmm", 10, 60)
    t.op("aten::copy_", 20, 5)
    result = analyzed(t, tmp_path, config, "cpu")
    assert {o.name: o.time_us for o in result.by_op} == {
        "aten::linear": 40.0,
        "aten::addmm": 55.0,
        "aten::copy_": 5.0,
    }
    assert result.kernel_time_us == 100.0
    (value,) = result.metrics()
    assert value.absent_reason


TRACES = [
    "hta-df-index-resolver/df_index_resolver.json.gz",
    "hta-nccl-parser-config/nccl_data.json.gz",
    "hta-ns-resolution-trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta-trace-diff/control.json.gz",
    "hta-trace-diff/test.json.gz",
    "hta-triton-example/triton_example.json.gz",
    "param-dlrm-kineto/worker3_step_12.1694128201557.pt.trace.json.gz",
    "tracelens-b200/eager_trace.json.gz",
    "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tracelens-inference-vllm-decode-full/graph_execution.json.gz",
    "tracelens-mi210-gpu-only-trace/gpu_only_trace.json.gz",
    "tracelens-mi300-ddp-resnet18-no-pool/train_resnet18.json.gz",
    "tracelens-sglang-deepseek-r1-tp/B300.1782843274.7730265-TP-0-DECODE.trace.json.gz",
]


@pytest.mark.parametrize("name", TRACES)
def test_the_largest_kernels_of_real_traces_are_exact_and_all_tables_add_up(
    name: str, shared_traces: Path, expected: dict[str, Any], config: Config
) -> None:
    trace = read_trace(shared_traces / name)
    for device in devices(trace):
        right = expected[name]["devices"][str(device)]
        result = analyze(trace, config, device)
        assert result.kernels == right["kernels"]
        assert len(result.by_kernel) == right["kernel_names"]
        assert result.kernel_time_us == pytest.approx(right["kernel_time_sum_us"], abs=1e-6)
        by_name = {k.name: k for k in result.by_kernel}
        for kernel in right["top_kernels"]:
            ours = by_name[kernel["name"]]
            assert ours.count == kernel["count"]
            assert ours.total_us == pytest.approx(kernel["total_us"], abs=1e-6)
        assert sum(k.count for k in result.by_kernel) == result.kernels
        assert sum(o.kernels for o in result.by_op) == result.kernels
        assert sum(o.time_us for o in result.by_op) == pytest.approx(result.kernel_time_us)


def test_mean_and_maximum_stay_right_beyond_ten_kernel_names(
    shared_traces: Path, config: Config
) -> None:
    # A peer overwrites them with the sum (mean 22,604, deviation 0), of the 20 runs that are left
    # when it drops the last of five steps. The file's 25 durations sum to 28,253 µs.
    trace = read_trace(shared_traces / "hta-df-index-resolver/df_index_resolver.json.gz")
    result = analyze(trace, config, 1)
    kernel = next(k for k in result.by_kernel if k.name == "volta_sgemm_128x128_tn")
    assert (kernel.count, kernel.total_us, kernel.max_us) == (25, 28253.0, 1662.0)
    assert kernel.mean_us == pytest.approx(1130.12)
    # Five first calls of 1,656..1,662 beside twenty of 995..1,001: two values 662 apart in 1:4.
    assert kernel.std_us == pytest.approx(662 * 0.4, rel=0.01)


def test_a_cpu_op_with_a_stream_is_no_kernel(shared_traces: Path, config: Config) -> None:
    trace = read_trace(shared_traces / "hta-triton-example/triton_example.json.gz")
    result = analyze(trace, config, 0)
    assert result.kernel_time_us == pytest.approx(1.76)
