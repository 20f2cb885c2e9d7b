"""Specs of modules against what torch itself does: saved tensors, FLOP counter, memory profile."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from gpuperf_analyzers.estimate.spec import parse_spec
from gpuperf_analyzers.estimate.step_memory import step_estimate
from gpuperf_analyzers.estimate.terms import EstimateError
from pytest_gpuperf.model_spec import ModelSpecError, model_spec
from pytest_gpuperf.model_spec.against import TOLERANCES, compare
from pytest_gpuperf.model_spec.builtin import builtin_models
from pytest_gpuperf.recording.flop_count import count_flops


def kept_by_torch(model: nn.Module, *inputs: torch.Tensor) -> int:
    """Bytes that autograd saves, by hooks, each storage once, parameters and inputs left out."""
    known = [*model.parameters(), *model.buffers(), *inputs]
    skip = {t.untyped_storage().data_ptr() for t in known}
    kept: dict[int, int] = {}
    alive = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in skip:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        model(*inputs)
    return sum(kept.values())


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "in place": (
        lambda: nn.Sequential(
            nn.Linear(8, 8), nn.SiLU(inplace=True), nn.Linear(8, 8), nn.ReLU(inplace=True),
            nn.Linear(8, 8),
        ), (4, 8)),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6)),
        (2, 4, 8, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (2, 8, 32)),
    "frozen": (lambda: nn.Sequential(nn.Linear(8, 16).requires_grad_(False), nn.Tanh(),
                                     nn.Linear(16, 4)), (4, 8)),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(4, 8, 1), nn.GroupNorm(2, 8), nn.Mish()),
                   (2, 4, 6, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_what_autograd_keeps_is_predicted(name):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, x = make(), torch.randn(shape)
    step = step_estimate(model_spec(model, x))
    assert step.unknown == {}
    assert step.activation_bytes == kept_by_torch(model, x)
    counted = count_flops(lambda: model(x).sum().backward())
    assert step.flops == counted.flops


@pytest.mark.parametrize("model", builtin_models(), ids=lambda m: m.name)
def test_built_in_models_against_measurement(model):
    """Within the tolerances; the spec of each to the byte and the FLOP."""
    rows = list(compare(model))
    assert {row.quantity for row in rows} == set(TOLERANCES)
    for row in rows:
        assert row.within or row.reason, row
        if row.by == "model spec":
            assert row.predicted == row.measured, row


def test_nothing_is_allocated_and_the_model_is_left_alone():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(10**6, 10**6), nn.BatchNorm1d(10**6))
        x = torch.empty(8, 10**6)
    assert step_estimate(model_spec(model, x)).parameters == 10**12 + 3 * 10**6
    small = nn.BatchNorm1d(4)
    before = {k: v.clone() for k, v in small.state_dict().items()}
    model_spec(small, torch.randn(8, 4))
    assert all(torch.equal(v, before[k]) for k, v in small.state_dict().items())
    assert not small._forward_hooks


def test_gradients_of_activations_at_their_most():
    """Linear 8 → 64, ReLU, Linear 64 → 4, 16 rows: R = 16·64·4 bytes is what ReLU returns.

    Backward of ReLU what it returned is kept, beside the gradients of its output and of its
    input: 3·R. R of them are the activations, 2·R in passing.
    """
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
    step = step_estimate(model_spec(model, torch.ones(16, 8)), optimizer="sgd")
    assert step.activation_bytes == 16 * 64 * 4
    assert step.passing_bytes == 2 * 16 * 64 * 4


def test_a_tied_weight_counts_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x):
            return self.head(self.table(x))

    assert step_estimate(model_spec(Tied(), torch.zeros(2, 3, dtype=torch.long))).parameters == 40


def test_an_op_without_a_rule_is_named():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return torch.special.i0(x * self.weight)

    step = step_estimate(model_spec(Odd(), torch.ones(4)))
    assert step.unknown in ({"special_i0": 1}, {"i0": 1})
    assert "at least" in next(t.formula for t in step.terms() if t.name == "activations")


def test_a_forward_pass_that_needs_values_is_refused():
    class Needs(nn.Module):
        def forward(self, x):
            return x if x.sum().item() > 0 else -x

    with pytest.raises(ModelSpecError, match="meta device"):
        model_spec(Needs(), torch.ones(4))
    with pytest.raises(ModelSpecError, match=r"not an nn\.Module"):
        model_spec(torch.ones, torch.ones(4))


def test_a_spec_survives_json_and_a_damaged_one_is_refused():
    spec = model_spec(nn.Linear(2, 3), torch.ones(1, 2))
    raw = json.loads(json.dumps(spec.to_json()))
    assert parse_spec(raw) == spec
    for change in ({"schema": 99}, {"storages": 3}, {"operations": [{}]}, {"storages": []}):
        with pytest.raises(EstimateError):
            parse_spec({**raw, **change})


def test_the_gate(pytester: pytest.Pytester):
    """A step that keeps three copies of a large output alive is above what it should take.

    The estimate has x and the gradient of y, 2 × 16.8 MB, and the small weights. The plain step
    holds y besides, and a copy of its gradient at most: under 3 × 16.8. The other holds three
    copies of y more, and while new ones are made the old ones too: over 5 × 16.8.
    """
    pytester.makepyfile(
        """
        import pytest, torch
        from gpuperf_analyzers.estimate import step_estimate
        from pytest_gpuperf.model_spec import model_spec

        @pytest.mark.gpuperf(max_over_estimate="100%")
        @pytest.mark.parametrize("copies", [0, 3])
        def test_step(gpuperf, copies):
            model, x, kept = torch.nn.Linear(512, 512), torch.randn(8192, 512), []
            estimate = step_estimate(model_spec(model, x, loss=torch.sum), optimizer="sgd")
            def step():
                y = model(x)
                kept[:] = [y.detach() * n for n in range(copies)]
                y.sum().backward()
                model.zero_grad()
            gpuperf.run(step, estimate=estimate)
            assert estimate.total_bytes > 2 * 4 * 8192 * 512

        @pytest.mark.gpuperf(max_over_estimate="100%")
        def test_none(gpuperf):
            gpuperf(sum, [1])
        """
    )
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-o", "gpuperf_warmup=10ms", "-o", "gpuperf_max_time=50ms",
        "--gpuperf-device=cpu",
    )  # fmt: skip
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*FAILED*test_step*3*over estimate*100%*"])
    result.stdout.fnmatch_lines(["*UNMEASURED*no estimate= declared*"])
