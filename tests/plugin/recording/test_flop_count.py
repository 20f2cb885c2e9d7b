"""FLOP counted by torch, by dtype, against the formulas worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.hookspecs import FlopFormula
from pytest_gpuperf.recording import tf32
from pytest_gpuperf.recording.flop_count import FlopCount, count_flops, dtype_name
from pytest_gpuperf.recording.flops_of_call import declared_over_counted
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.tf32 import Tf32

torch = pytest.importorskip("torch")


def test_a_linear_layer_is_2mnk_forward_and_4mnk_backward() -> None:
    layer, x = torch.nn.Linear(48, 16), torch.randn(32, 48, requires_grad=True)
    assert count_flops(lambda: layer(x)).flops == 2 * 32 * 48 * 16
    # Backward: the gradient of the input and that of the weight, each as dear as forward.
    assert count_flops(lambda: layer(x).sum().backward()).flops == 6 * 32 * 48 * 16


def test_a_convolution_counts_its_window_at_each_output() -> None:
    layer, image = torch.nn.Conv2d(3, 8, 3, padding=1), torch.randn(1, 3, 16, 20)
    assert count_flops(lambda: layer(image)).flops == 2 * (16 * 20) * 8 * (3 * 3 * 3)


def test_flops_are_told_by_dtype() -> None:
    a, b = torch.randn(8, 8), torch.randn(16, 16, dtype=torch.bfloat16)

    def step() -> None:
        a @ a
        b @ b

    found = count_flops(step)
    counted = 2 * 8**3 + 2 * 16**3
    by_dtype = {"fp32": 2 * 8**3, "bf16": 2 * 16**3}
    assert found == FlopCount(counted, by_dtype, by_op={"aten::mm": counted})


def test_autocast_counts_in_the_dtype_that_runs() -> None:
    a = torch.randn(8, 8)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            a @ a

    assert count_flops(step).by_dtype == {"bf16": 2 * 8**3}


def test_fp32_is_tf32_where_that_is_what_runs() -> None:
    a = torch.randn(8, 8)
    layer, image = torch.nn.Conv2d(1, 1, 1, bias=False), torch.randn(1, 1, 4, 4)

    def step() -> None:
        a @ a
        layer(image)

    mm, conv = 2 * 8**3, 2 * 4 * 4
    assert count_flops(step).by_dtype == {"fp32": mm + conv}
    assert count_flops(step, tf32=Tf32(True, True)).by_dtype == {"tf32": mm + conv}
    assert count_flops(step, tf32=Tf32(convolution=True)).by_dtype == {"fp32": mm, "tf32": conv}
    assert dtype_name(torch.float64, tf32=True) == "fp64"


def fake_torch(capability: tuple[int, int], matmul: Any, cudnn: Any, hip: str | None = None) -> Any:
    return SimpleNamespace(
        version=SimpleNamespace(hip=hip),
        cuda=SimpleNamespace(get_device_capability=lambda _: capability),
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul), cudnn=cudnn),
    )


class Renamed:
    """torch's settings once the current name was used: the old one raises."""

    def __init__(self, precision: str) -> None:
        self.fp32_precision = precision

    @property
    def allow_tf32(self) -> bool:
        raise RuntimeError("mix of the legacy and new APIs")


@pytest.mark.parametrize(
    ("torch_is", "policy"),
    [
        # Hopper, torch's defaults: matmuls exact, convolutions in TF32.
        (
            fake_torch((9, 0), Renamed("none"), SimpleNamespace(conv=Renamed("tf32"))),
            Tf32(matmul=False, convolution=True),
        ),
        (
            fake_torch((9, 0), Renamed("tf32"), SimpleNamespace(conv=Renamed("ieee"))),
            Tf32(matmul=True, convolution=False),
        ),
        # An older torch has the old names only.
        (
            fake_torch((8, 0), SimpleNamespace(allow_tf32=False), SimpleNamespace(allow_tf32=True)),
            Tf32(matmul=False, convolution=True),
        ),
        # Turing has no TF32, whatever is set; nor has ROCm by these names.
        (fake_torch((7, 5), Renamed("tf32"), SimpleNamespace(conv=Renamed("tf32"))), Tf32()),
        (
            fake_torch((9, 4), Renamed("tf32"), SimpleNamespace(conv=Renamed("tf32")), hip="6.2"),
            Tf32(),
        ),
    ],
)
def test_the_policy_is_torchs_on_a_gpu_that_has_tf32(
    monkeypatch: pytest.MonkeyPatch, torch_is: Any, policy: Tf32
) -> None:
    monkeypatch.setattr(tf32, "import_torch", lambda: torch_is)
    assert tf32.tf32_policy(torch.device("cuda", 0)) == policy
    assert tf32.tf32_policy(torch.device("cpu")) == Tf32()


def test_the_policy_can_be_read_in_this_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert tf32.tf32_policy(torch.device("cuda", 0)).matmul
        torch.set_float32_matmul_precision("highest")
        assert not tf32.tf32_policy(torch.device("cuda", 0)).matmul
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_mode_without_gradients_counts_the_same(mode: type) -> None:
    layer, x = torch.nn.Linear(48, 16), torch.randn(32, 48)
    with mode():
        assert count_flops(lambda: layer(x)).flops == 2 * 32 * 48 * 16


def test_a_compiled_workload_is_counted_and_not_compiled_again() -> None:
    a = torch.randn(8, 8)
    compilations = []

    def backend(graph, _inputs):
        compilations.append(1)
        return graph

    def workload() -> torch.Tensor:
        return (a @ a).relu()

    step = torch.compile(workload, backend=backend)
    step()
    assert count_flops(step).flops == 2 * 8**3
    step()
    assert len(compilations) == 1


def test_nothing_counted_is_no_number_and_says_so() -> None:
    found = count_flops(lambda: torch.ones(3) + 1)
    assert found.flops is None
    assert found.by_dtype == {}
    assert found.source.startswith("not counted")


def test_the_workload_is_called_once() -> None:
    calls = []
    count_flops(lambda: calls.append(1))
    assert calls == [1]


def test_a_formula_for_a_custom_op_is_used() -> None:
    @torch.library.custom_op("gpuperf_test::scale_rows", mutates_args=())
    def scale_rows(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    x = torch.randn(4, 6)
    formula = FlopFormula(
        "gpuperf_test::scale_rows", lambda call: call.dims[0][0] * call.dims[0][1]
    )
    missing = FlopFormula("gpuperf_absent::op", lambda _: 10**9)
    config = Config({}, {f.op: f for f in (formula, missing)})
    assert count_flops(lambda: scale_rows(x, 2.0)).flops is None
    assert count_flops(lambda: scale_rows(x, 2.0), config=config).flops == 4 * 6


def test_declared_flops_stand_over_counted_ones() -> None:
    counted = FlopCount(100, {"bf16": 100})
    assert declared_over_counted(Options(), counted) is counted
    assert declared_over_counted(Options(flops=70), counted) == FlopCount(
        70, {"bf16": 70}, "declared"
    )
    assert declared_over_counted(Options(flops=70, dtype="fp8"), counted).by_dtype == {"fp8": 70}


def test_declared_flops_of_a_mixed_workload_are_of_no_known_dtype() -> None:
    mixed = FlopCount(100, {"bf16": 60, "fp32": 40})
    assert declared_over_counted(Options(flops=70), mixed).by_dtype == {}
    assert declared_over_counted(Options(flops=70), FlopCount(None)).flops == 70


def test_a_compiled_function_is_still_the_compiled_one_after_the_count() -> None:
    ran = []

    def backend(module: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        def compiled(*args: object) -> object:
            ran.append("compiled")
            return module(*args)

        return compiled

    a = torch.randn(8, 8)
    function = torch.compile(lambda: a @ a, backend=backend)
    function()
    # 2·8·8·8, as without the compiler.
    assert count_flops(function).flops == 2 * 8**3
    ran.clear()
    function()
    assert ran == ["compiled"]
