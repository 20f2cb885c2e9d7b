"""What is counted live and what the trace's shapes give are one number, whatever the layers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuperf_analyzers import analyze, load_config, read_trace
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.hookspecs import FlopFormula
from pytest_gpuperf.recording import Options, record

torch = pytest.importorskip("torch")

Step = Callable[[], object]
QUICK = Options(warmup_s=0.0, max_time_s=0.02, steps=2, measure_peak=False)


def training(module: torch.nn.Module, x: torch.Tensor) -> Step:
    def step() -> None:
        out = module(x)
        (out[0] if isinstance(out, tuple) else out).sum().backward()

    return step


def inference(module: torch.nn.Module, x: torch.Tensor) -> Step:
    module.eval()

    def step() -> None:
        with torch.no_grad():
            module(x)

    return step


def convolution(groups: int) -> Step:
    # The input needs a gradient too, as in any layer but the first.
    x = torch.randn(2, 8, 10, 10, requires_grad=True)
    return training(torch.nn.Conv2d(8, 16, 3, groups=groups), x)


def attention() -> Step:
    q, k, v = (torch.randn(2, 4, 6, 8, requires_grad=True) for _ in "qkv")
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return lambda: sdpa(q, k, v).sum().backward()


def encoder() -> torch.nn.Module:
    return torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)


CONV = 2 * (2 * 16 * 8 * 8) * (8 * 9)  # a dot product over 8 channels x 9 taps a point, one group
SCORES = 2 * 2 * 4 * 6 * 6 * 8  # B·H·Sq·Sk·D multiply-adds; forward is two, backward five
LSTM = 2 * 15 * 64 * (8 + 16)  # T·B rows by W_ih (64 x 8) and W_hh (64 x 16)
ENCODER = 8 * 2 * 6 * 16**2 + 4 * 2 * 6**2 * 16 + 4 * 2 * 6 * 16 * 32

# Backward costs twice the forward pass: a product for each of the two gradients.
WORKLOADS: dict[str, tuple[Callable[[], Step], int]] = {
    "convolution": (lambda: convolution(1), 3 * CONV),
    "grouped convolution": (lambda: convolution(4), 3 * CONV // 4),
    "depthwise convolution": (lambda: convolution(8), 3 * CONV // 8),
    "attention": (attention, 7 * SCORES),
    "LSTM": (lambda: training(torch.nn.LSTM(8, 16), torch.randn(5, 3, 8).requires_grad_()),
             3 * LSTM),
    "LSTM without gradients": (lambda: inference(torch.nn.LSTM(8, 16), torch.randn(5, 3, 8)), LSTM),
    "fused encoder layer": (lambda: inference(encoder(), torch.randn(2, 6, 16)), ENCODER),
    "linear": (lambda: training(torch.nn.Linear(8, 4), torch.randn(3, 8)), 2 * 2 * 3 * 8 * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_live_count_and_trace_agree_with_the_closed_form(name: str, tmp_path: Path) -> None:
    make, flops = WORKLOADS[name]
    path = tmp_path / "t.json.gz"
    block = record(make(), device=torch.device("cpu"), trace_path=path, options=QUICK).block
    assert block.flops == flops
    found = analyze(read_trace(path))
    assert set(found.devices[0].results["flops"].step_flops) == {flops}
    assert not set(found.invalid) & {"flops", "tflops", "mfu", "hfu"}, found.invalid


def test_a_mixed_step_with_fused_layers_is_not_called_a_disagreement(tmp_path: Path) -> None:
    # The products inside the fused layer have the names of those outside.
    layer, head, x = encoder().eval(), torch.nn.Linear(16, 4), torch.randn(2, 6, 16)

    def step() -> None:
        with torch.no_grad():
            head(layer(x))

    path = tmp_path / "t.json.gz"
    block = record(step, device=torch.device("cpu"), trace_path=path, options=QUICK).block
    assert block.flops == ENCODER + 2 * 2 * 6 * 16 * 4
    found = analyze(read_trace(path))
    assert "flops" not in found.invalid, found.invalid


def test_setup_and_teardown_are_not_counted(tmp_path: Path) -> None:
    a = torch.randn(16, 16)
    path = tmp_path / "t.json.gz"
    block = record(
        lambda: a @ a, device=torch.device("cpu"), trace_path=path, options=QUICK,
        setup=lambda: a @ a, teardown=lambda: a @ a,
    ).block  # fmt: skip
    assert block.flops == 2 * 16**3
    assert "flops" not in analyze(read_trace(path)).invalid


@pytest.fixture(scope="module")
def hidden_product() -> Callable[[torch.Tensor], torch.Tensor]:
    @torch.library.custom_op("gpuperf_agreement::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    return square


def with_formula() -> Config:
    config = load_config()
    formula = FlopFormula("gpuperf_agreement::square", lambda call: 2 * call.dims[0][0] ** 3)
    return Config(
        metrics=config.metrics, flop_formulas={**config.flop_formulas, formula.op: formula}
    )


@pytest.mark.parametrize(
    ("beside", "counted", "reason"),
    [
        # Another op is counted beside it, or the one that is hidden in it.
        (torch.bmm, 3 * 2 * 8**3, "did not see: work inside gpuperf_agreement::square"),
        (lambda b, _: b[0] @ b[1], 2 * 8**3, "for the same ops: steps differ, or the counter"),
    ],
)
def test_a_product_that_the_counter_cannot_see_is_told_until_its_op_has_a_formula(
    tmp_path: Path,
    hidden_product: Callable[[torch.Tensor], torch.Tensor],
    beside: Callable[..., torch.Tensor],
    counted: int,
    reason: str,
) -> None:
    a, b = torch.randn(16, 16), torch.randn(3, 8, 8)

    def step() -> None:
        hidden_product(a)
        beside(b, b)

    device, path = torch.device("cpu"), tmp_path / "t.json.gz"
    block = record(step, device=device, trace_path=path, options=QUICK).block
    assert block.flops == counted
    assert reason in analyze(read_trace(path)).invalid["tflops"]
    block = record(step, device=device, trace_path=path, options=QUICK, config=with_formula()).block
    assert block.flops == counted + 2 * 16**3
    assert "tflops" not in analyze(read_trace(path), with_formula()).invalid


def test_steps_of_different_work_are_a_disagreement(tmp_path: Path) -> None:
    sizes = iter(range(10**6))

    def step() -> None:
        a = torch.randn(8 + next(sizes) % 2 * 8, 16)
        a @ a.T

    path = tmp_path / "t.json.gz"
    record(step, device=torch.device("cpu"), trace_path=path, options=QUICK)
    assert "(flops-disagree)" in analyze(read_trace(path)).invalid["flops"]
