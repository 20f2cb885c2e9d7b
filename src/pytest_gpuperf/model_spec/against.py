"""The estimate against measurement: built-in models on this machine's CPU, in one table.

Memory is what torch's profiler says was allocated and freed in each phase of one training step,
read by our own reader; FLOP are what ``FlopCounterMode`` saw, by our formulas. Neither knows the
estimate.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpuperf_analyzers.estimate.activations import head_bytes, layer_tensors
from gpuperf_analyzers.estimate.step_memory import StepEstimate, step_estimate
from gpuperf_analyzers.estimate.transformer import executed_flops, parameters
from pytest_gpuperf.model_spec.builtin import BuiltinModel, builtin_models
from pytest_gpuperf.model_spec.making import model_spec
from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.flop_count import count_flops
from pytest_gpuperf.recording.profiler_conflicts import refuse_active_profiler
from pytest_gpuperf.recording.quiet import garbage_collection_off

TOLERANCES = {
    "parameters": 0.01,
    "gradients": 0.01,
    "optimizer state": 0.01,
    "activations": 0.10,
    "FLOP": 0.01,
}
"""Largest |predicted / measured - 1| of each quantity without a reason beside it."""
_FP32 = 4
_OF_SPEC, _OF_CONFIG = "model spec", "config"
_ALSO_KEPT = (
    "the formula is for fused norms and attention on shared key-value heads; on a CPU torch keeps "
    "what RMSNorm's parts need and a copy of keys and values for each head"
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity of one model: predicted, measured, and why they differ where they may.

    ``by`` says what predicted it, the ``model spec`` or the ``config``'s closed formulas.
    """

    model: str
    quantity: str
    by: str
    unit: str
    predicted: float
    measured: float
    reason: str = ""

    @property
    def error(self) -> float | None:
        """Predicted over measured, less 1; None where only something was predicted."""
        if self.measured == 0:
            return 0.0 if self.predicted == 0 else None
        return self.predicted / self.measured - 1

    @property
    def within(self) -> bool:
        """Whether the error is within the quantity's tolerance."""
        return self.error is not None and abs(self.error) <= TOLERANCES[self.quantity]


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes and FLOP of one training step, as measured."""

    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    flops: int


def compare_builtin() -> tuple[Compared, ...]:
    """Every built-in model, predicted and measured.

    Raises
    ------
    RecordingError
        torch is missing, or another profiler is running.
    """
    return tuple(row for model in builtin_models() for row in compare(model))


def compare(model: BuiltinModel) -> Iterator[Compared]:
    """One model: what the spec says of it, what its config says, and what was measured."""
    torch = import_torch()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        with torch.device("meta"):
            described = model.build(torch)
        spec = model_spec(described, *model.inputs(torch), name=model.name)
        measured = measure_step(model)
    predicted = step_estimate(spec, optimizer=model.optimizer)
    for quantity, of_spec, found in _pairs(predicted, measured):
        unit = "FLOP" if quantity == "FLOP" else "bytes"
        yield Compared(model.name, quantity, _OF_SPEC, unit, of_spec, found)
    if model.config is not None:
        yield from _by_config(model, measured)


def _pairs(predicted: StepEstimate, measured: Measured) -> Iterator[tuple[str, float, float]]:
    of_model = predicted.parameter_bytes + predicted.buffer_bytes
    yield "parameters", of_model, measured.parameter_bytes
    yield "gradients", predicted.gradient_bytes, measured.gradient_bytes
    yield "optimizer state", predicted.optimizer_bytes, measured.optimizer_bytes
    yield "activations", predicted.activation_bytes, measured.activation_bytes
    yield "FLOP", predicted.flops, measured.flops


def _by_config(model: BuiltinModel, measured: Measured) -> Iterator[Compared]:
    """What the closed formulas of the config say, in values of four bytes."""
    c = model.config
    if c is None:
        return
    count = _FP32 * parameters(c).total
    layer = sum(layer_tensors(c, c.sequence, model.batch).values())
    # The formulas count values of two bytes, and logits of four.
    kept = 2 * c.layers * layer + head_bytes(c, c.sequence, model.batch)
    kept += 2 * 2 * c.sequence * model.batch * c.hidden
    flops = executed_flops(c, c.sequence * model.batch)
    reason = "" if c.kv_heads == c.heads and c.norm_bias else _ALSO_KEPT
    rows = (
        ("parameters", "bytes", count, measured.parameter_bytes, ""),
        ("gradients", "bytes", count, measured.gradient_bytes, ""),
        ("optimizer state", "bytes", 2 * count, measured.optimizer_bytes, ""),
        ("activations", "bytes", kept, measured.activation_bytes, reason),
        ("FLOP", "FLOP", flops, measured.flops, ""),
    )
    for quantity, unit, value, found, why in rows:
        row = Compared(model.name, quantity, _OF_CONFIG, unit, float(value), found)
        yield (
            row
            if row.within
            else Compared(model.name, quantity, _OF_CONFIG, unit, float(value), found, why)
        )


def measure_step(model: BuiltinModel) -> Measured:
    """One training step of `model` on the CPU, phase by phase."""
    torch = import_torch()
    refuse_active_profiler()
    phases = _Phases(torch)
    module = phases.run("build", lambda: model.build(torch))
    inputs = model.inputs(torch)
    optimizer = _optimizer(torch, model.optimizer, module)
    loss = phases.run("forward", lambda: module(*inputs))
    of_loss = loss.untyped_storage().nbytes()

    def backward() -> None:
        nonlocal loss
        loss.backward()
        loss = None

    phases.run("backward", backward)
    phases.run("update", optimizer.step)
    optimizer.zero_grad(set_to_none=True)
    counted = count_flops(lambda: module(*inputs).backward())
    grown = phases.grown
    if not grown["build"]:
        raise RecordingError("gpuperf: torch's profiler recorded no memory events")
    return Measured(
        parameter_bytes=grown["build"],
        # What the backward pass frees was taken forward; what is left are the gradients.
        gradient_bytes=grown["forward"] + grown["backward"],
        optimizer_bytes=grown["update"],
        activation_bytes=grown["forward"] - of_loss,
        flops=counted.flops or 0,
    )


def _optimizer(torch: Any, name: str, module: Any) -> Any:
    made: dict[str, Callable[[Any], Any]] = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }
    return made[name](module.parameters())


class _Phases:
    """Runs parts of a step, each under a profile of memory, and keeps how much each left."""

    def __init__(self, torch: Any) -> None:
        self.grown: dict[str, int] = {}
        self._torch = torch

    def run(self, name: str, part: Callable[[], Any]) -> Any:
        """What `part` returns; the bytes it leaves allocated are kept under `name`."""
        profiler = self._torch.profiler
        # What an earlier model left in reference cycles would be freed in our time.
        gc.collect()
        with (
            garbage_collection_off(),
            profiler.profile(
                activities=[profiler.ProfilerActivity.CPU], profile_memory=True
            ) as profile,
        ):
            value = part()
        self.grown[name] = _left(profile)
        return value


def _left(profile: Any) -> int:
    """Bytes allocated less bytes freed in `profile`, from its trace."""
    from gpuperf_analyzers.memory import analyze
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.trace import read_trace

    with TemporaryDirectory(prefix="gpuperf-") as folder:
        path = Path(folder) / "phase.json"
        profile.export_chrome_trace(str(path))
        result = analyze(read_trace(path), load_config(), "cpu")
    # An update without state allocates nothing, and leaves nothing.
    return result.allocated_bytes[-1] if result.allocated_bytes else 0
