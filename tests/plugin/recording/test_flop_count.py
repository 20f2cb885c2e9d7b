"""FLOP counted by torch, by dtype, against the formulas worked out by hand."""

from __future__ import annotations

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.hookspecs import FlopFormula
from pytest_gpuperf.recording.flop_count import FlopCount, count_flops, dtype_name
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.recorder import declared_over_counted

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
    assert found == FlopCount(2 * 8**3 + 2 * 16**3, {"fp32": 2 * 8**3, "bf16": 2 * 16**3})


def test_autocast_counts_in_the_dtype_that_runs() -> None:
    a = torch.randn(8, 8)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            a @ a

    assert count_flops(step).by_dtype == {"bf16": 2 * 8**3}


def test_fp32_is_tf32_where_that_is_what_runs() -> None:
    a = torch.randn(8, 8)
    assert count_flops(lambda: a @ a, tf32=True).by_dtype == {"tf32": 2 * 8**3}
    assert dtype_name(torch.float64, tf32=True) == "fp64"


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
