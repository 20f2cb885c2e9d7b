"""Categories of real training steps on the CPU, held to sums done by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest

from gpuperf_analyzers.fit_error import FitError
from pytest_gpuperf import fit_memory
from pytest_gpuperf.recording.coordination import SOLO
from pytest_gpuperf.recording.memory_pass import memory_by_category
from pytest_gpuperf.recording.sampling import Workload

torch = pytest.importorskip("torch")

CPU = torch.device("cpu")
B, D, H, O = 64, 128, 256, 32  # noqa: E741 - batch, input, hidden, output
P = D * H + H + H * O + O


def _mlp() -> object:
    return torch.nn.Sequential(torch.nn.Linear(D, H), torch.nn.ReLU(), torch.nn.Linear(H, O))


def _measured(step: Callable[[], object], **more: int) -> object:
    return memory_by_category(Workload(step), CPU, SOLO, **{"steps": 2, **more})


def _others() -> Mapping[str, int]:
    """What earlier tests left alive, by category."""
    return _measured(lambda: None, steps=1).largest


def test_an_mlp_with_adam() -> None:
    others = _others()
    net, x, y = _mlp(), torch.randn(B, D), torch.randn(B, O)
    adam = torch.optim.Adam(net.parameters())

    def step() -> None:
        adam.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        adam.step()

    step()
    found = _measured(step)
    largest = found.largest
    assert largest["gradient"] - others["gradient"] == 4 * P
    # Two moments for each parameter, and a step count in fp32 for each of four tensors.
    assert largest["optimizer"] - others["optimizer"] == 8 * P + 4 * 4
    # Held for the backward pass: the ReLU's result, the net's result, the loss (whose storage
    # holds the unreduced loss) and the gradient of the loss that the backward pass begins with.
    assert largest["activation"] == 4 * (B * H + B * O + B * O + 1)
    assert found.peak_bytes == sum(found.at_peak.values())
    # Other tests' tensors may be alive too; the net's parameters and inputs are among the known.
    places = {(c.category, c.where): c.bytes for c in found.causes}
    assert places["parameter", "Sequential.0.weight"] == 4 * D * H
    assert places["gradient", "Sequential.2.weight"] == 4 * H * O
    assert places["input", f"tensor {B}x{D}"] == 4 * B * D
    # Adam's denominator and its square root, for the largest tensor.
    assert places["temporary", "Adam.step"] >= 2 * 4 * D * H
    of_activation = [c.where for c in found.at_largest if c.category == "activation"]
    assert of_activation[0] == "Sequential.1: aten::relu"


@pytest.mark.parametrize(
    ("make", "per_parameter"),
    [
        (lambda p: torch.optim.SGD(p, 0.1), 0),
        (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), 4),
        (torch.optim.RMSprop, 4),
    ],
)
def test_state_of_other_optimizers(make: Callable[..., object], per_parameter: int) -> None:
    others = _others()
    net, x = _mlp(), torch.randn(B, D)
    optimizer = make(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    step()
    found = _measured(step)
    steps = 4 * 4 if type(optimizer).__name__ == "RMSprop" else 0
    assert found.largest["optimizer"] - others["optimizer"] == per_parameter * P + steps
    assert found.largest["gradient"] - others["gradient"] == 4 * P


def test_state_that_the_first_step_makes_is_state() -> None:
    net, x = _mlp(), torch.randn(B, D)
    box: list[object] = []

    def step() -> None:
        # A new optimizer each time: its state is made within the recorded steps.
        box[:] = [torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)]
        net.zero_grad()
        net(x).sum().backward()
        box[0].step()

    assert _measured(step, steps=1).largest["optimizer"] >= 4 * P


def test_a_checkpoint_holds_its_input_and_computes_the_rest_again() -> None:
    from torch.utils.checkpoint import checkpoint

    blocks = torch.nn.ModuleList(_mlp() for _ in range(1))
    x = torch.randn(B, D)

    def plain() -> None:
        blocks.zero_grad()
        blocks[0](x).relu().sum().backward()

    def checkpointed() -> None:
        blocks.zero_grad()
        checkpoint(blocks[0], x, use_reentrant=False).relu().sum().backward()

    plain()
    # Held: ReLU's result and the outer relu's; the net's result frees with it.
    held = _measured(plain).largest["activation"]
    again = _measured(checkpointed)
    assert held >= 4 * (B * H + B * O)
    # At its most the same is held, while it is computed again in the backward pass.
    made_again = [c.where for c in again.at_largest if c.category == "activation"]
    assert any("aten::relu" in where or "Sequential" in where for where in made_again)


def test_a_compiled_module_is_measured_without_a_warning() -> None:
    others = _others()
    net, x = _mlp(), torch.randn(B, D)
    compiled = torch.compile(net, backend="aot_eager")

    def step() -> None:
        net.zero_grad()
        compiled(x).sum().backward()

    step()
    found = _measured(step)
    assert found.largest["gradient"] - others["gradient"] == 4 * P
    # The ReLU's result; the sum's and its gradient's 4 bytes.
    assert found.largest["activation"] == 4 * B * H + 8


def test_inference_has_no_activations() -> None:
    net, x = _mlp(), torch.randn(B, D)

    @torch.no_grad()
    def step() -> None:
        net(x)

    found = _measured(step)
    assert found.largest["activation"] == 0
    assert found.largest["temporary"] >= 4 * 2 * B * H


def test_a_batch_that_the_step_makes_is_input() -> None:
    net = _mlp()

    def step() -> None:
        net.zero_grad()
        net(torch.randn(B, D)).sum().backward()

    step()
    found = _measured(step)
    made = [c for c in found.at_largest if c.category == "input" and c.where == "aten::randn"]
    assert [c.bytes for c in made] == [4 * B * D]


def test_memory_that_nobody_owns_is_unknown() -> None:
    before = _measured(lambda: torch.ones(3).sin()).largest["unknown"]
    kept = torch.zeros(10_000)
    holder = {"deep": [[[[[kept]]]]]}
    found = _measured(lambda: torch.ones(3).sin())
    assert found.largest["unknown"] == before + 40_000
    assert holder


def test_a_step_that_keeps_a_tensor_grows_by_it() -> None:
    kept = []

    def step() -> None:
        kept.append(torch.zeros(1000))

    found = _measured(step, trend_steps=8)
    grown = {b - a for a, b in pairwise(found.levels)}
    assert grown == {4000}
    # Of 8 steps, 7 made what stayed: the last one's may still be freed by the next.
    assert [(c.where, c.bytes, c.count) for c in found.growth] == [("aten::zeros", 4000, 7)]


def test_a_graph_that_only_autograd_holds_is_growth() -> None:
    weight = torch.ones(1000, requires_grad=True)
    losses = []

    def step() -> None:
        losses.append(weight.sin().sum())  # holds what no Python object does

    found = _measured(step, trend_steps=8)
    grown = {b - a for a, b in pairwise(found.levels)}
    assert grown == {4}  # sin keeps its argument, which is the weight; the sum its 4 bytes
    chained = []

    def keeps() -> None:
        chained.append(weight.sin().cos().sum())  # cos keeps the sine

    levels = _measured(keeps, trend_steps=8).levels
    grown = {b - a for a, b in pairwise(levels)}
    assert grown == {4004}


def test_dead_cycles_are_not_growth() -> None:
    def step() -> None:
        cycle: list[object] = [torch.zeros(1000)]
        cycle.append(cycle)

    assert len(set(_measured(step, trend_steps=8).levels)) == 1


def test_hooks_are_gone_afterwards() -> None:
    import torch.nn.modules.module as modules
    from torch.optim import optimizer

    _measured(lambda: torch.ones(3).sin())
    assert not modules._global_forward_hooks
    assert not modules._global_forward_pre_hooks
    assert not optimizer._global_optimizer_pre_hooks
    assert not optimizer._global_optimizer_post_hooks

    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        _measured(fails)
    assert not modules._global_forward_hooks


def test_memory_over_batch_of_an_mlp_is_its_closed_form() -> None:
    from pytest_gpuperf.recording.memory import alive_bytes

    before = alive_bytes(CPU)
    net = _mlp()

    def step(batch: int) -> None:
        net(torch.randn(batch, D)).sum().backward()

    found = fit_memory(step, sizes=[128, 256, 512], memory="64MiB", device="cpu")
    # Most is alive in the ReLU's backward: x, the ReLU's result, its gradient, and what it makes.
    assert found.per_sample_bytes == pytest.approx(4 * (D + 3 * H), rel=1e-9)
    # Parameters and gradients; the loss and the gradient it begins with are 8 bytes.
    assert found.model_bytes - before == pytest.approx(8 * P + 8, abs=1)
    assert found.r_squared == pytest.approx(1.0)
    expected = (64 * 2**20 - found.model_bytes) // (4 * (D + 3 * H))
    assert found.largest_batch == expected
    assert found.capacity_source == "as declared"


def test_the_capacity_of_this_machine() -> None:
    from pytest_gpuperf.recording.capacity import capacity_of

    size, source = capacity_of(CPU)
    assert 0 < size <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert source in ("this machine's RAM", "the control group's limit")


@pytest.mark.parametrize("sizes", [[], [1], [2, 2], [0, 1], [1.5, 2], ["1", "2"]])
def test_sizes_that_make_no_line(sizes: list[object]) -> None:
    with pytest.raises(ValueError, match="two different whole numbers"):
        fit_memory(lambda n: None, sizes=sizes, device="cpu")


def test_a_size_at_which_memory_runs_out_ends_the_points_and_is_named():
    """1,000 bytes a sample at sizes 100 and 200; 300 asks for what no machine has."""

    def step(batch):
        torch.empty(1 << 62 if batch == 300 else 1000 * batch, dtype=torch.uint8).size()

    found = fit_memory(step, sizes=[100, 200, 300], memory="1GiB", device="cpu")
    assert (found.sizes, found.out_of_memory) == ((100, 200), 300)
    assert found.per_sample_bytes == pytest.approx(1000)
    assert found.largest_batch == 299  # the line says more: 300 is known not to fit
    assert "memory ran out at size 300" in str(found)
    with pytest.raises(FitError, match=r"ran out at batch size 300: .* 1 did"):
        fit_memory(step, sizes=[100, 300], device="cpu")


def test_another_error_of_the_step_is_the_users_own():
    def step(batch):
        raise RuntimeError(f"shapes {batch}")

    with pytest.raises(RuntimeError, match="shapes 1"):
        fit_memory(step, sizes=[1, 2], device="cpu")


def test_a_gradient_that_no_optimizer_sees() -> None:
    weight = torch.randn(100, 100, requires_grad=True)
    before = _measured(lambda: torch.ones(3).sin()).largest["gradient"]

    def step() -> None:
        (weight @ weight).relu().sum().backward()
        with torch.no_grad():
            weight.sub_(0.01 * weight.grad)
        weight.grad = None

    found = _measured(step)
    assert found.largest["gradient"] - before == 40_000
    # What it is multiplied to is no input of the model.
    assert not [c for c in found.at_largest if c.category == "input" and "mul" in c.where]


def test_a_module_without_its_parameters_yet_holds_nothing() -> None:
    lazy = torch.nn.LazyLinear(4)
    assert _measured(lambda: torch.ones(3).sin()).peak_bytes > 0
    assert lazy is not None
