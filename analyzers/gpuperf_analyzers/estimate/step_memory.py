"""Memory and FLOP of a training step of a model spec: what the formulas say it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from gpuperf_analyzers.estimate.backward_peak import backward_peak
from gpuperf_analyzers.estimate.kept import ATTENTION, base_name, kept_tensors
from gpuperf_analyzers.estimate.model_states import OPTIMIZER_VALUES
from gpuperf_analyzers.estimate.spec import ModelSpec, Operation, Tensor
from gpuperf_analyzers.estimate.terms import COUNTED_OPS, EstimateError, Term

_STEP_COUNTER = 4
"""Bytes of the counter of steps that torch's Adam keeps beside each parameter."""
_WITH_COUNTER = frozenset({"adam", "adamw", "adagrad"})
_ACCUMULATED = 4
"""Bytes a value of a fused attention's row sums, whatever its inputs are in."""


@dataclass(frozen=True, slots=True)
class ModuleCost:
    """One module of a model: its own operations, FLOP forward, bytes that it is first to keep."""

    module: str
    operations: int
    flops: int
    kept_bytes: int
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """What one training step takes, by the formulas.

    Attributes
    ----------
    name
        The model's.
    parameters
        Trained and frozen values.
    parameter_bytes, buffer_bytes, gradient_bytes, optimizer_bytes, input_bytes
        Of the model, its buffers, gradients, optimizer state, and the step's inputs.
    activation_bytes
        What is kept for the backward pass, parameters and inputs left out; each storage once.
    passing_bytes
        Gradients of activations at the backward pass's worst moment, beyond what has been let go.
    forward_flops, backward_flops
        FLOP, a multiply-add being 2.
    unknown
        Ops without a rule, by name with their number: what they keep is not counted, so that
        the activations are a lower bound where there are any.
    modules
        The same by module, in order of first call.
    """

    name: str
    parameters: int
    parameter_bytes: int
    buffer_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    input_bytes: int
    activation_bytes: int
    passing_bytes: int
    forward_flops: int
    backward_flops: int
    unknown: dict[str, int]
    modules: tuple[ModuleCost, ...]

    @property
    def flops(self) -> int:
        """FLOP of forward and backward."""
        return self.forward_flops + self.backward_flops

    @property
    def total_bytes(self) -> int:
        """Everything at once: what a step needs at most, kernels' own working space apart."""
        return (
            self.parameter_bytes
            + self.buffer_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.input_bytes
            + self.activation_bytes
            + self.passing_bytes
        )

    def terms(self) -> tuple[Term, ...]:
        """The numbers with their formulas."""
        known = "" if not self.unknown else f"; at least, {', '.join(self.unknown)} not counted"
        return (
            Term("parameters", self.parameter_bytes, "bytes", "bytes of each, once", COUNTED_OPS),
            Term("buffers", self.buffer_bytes, "bytes", "bytes of each, once", COUNTED_OPS),
            Term("gradients", self.gradient_bytes, "bytes", "those of trained parameters",
                 COUNTED_OPS),
            Term("optimizer state", self.optimizer_bytes, "bytes",
                 "values a parameter × its bytes, and Adam's counters", COUNTED_OPS),
            Term("inputs", self.input_bytes, "bytes", "bytes of each", COUNTED_OPS),
            Term("activations", self.activation_bytes, "bytes",
                 f"storages kept for the backward pass, each once{known}", COUNTED_OPS),
            Term("gradients of activations", self.passing_bytes, "bytes",
                 "most that is alive backward, less the activations", COUNTED_OPS),
            Term("FLOP forward", self.forward_flops, "FLOP", "2·M·N·K and the like", COUNTED_OPS),
            Term("FLOP backward", self.backward_flops, "FLOP",
                 "as much for each factor that is trained; 2.5 × for a fused attention",
                 COUNTED_OPS),
        )  # fmt: skip


def step_estimate(spec: ModelSpec, *, optimizer: str = "adam") -> StepEstimate:
    """What a training step of `spec` with `optimizer` takes, in the precision it was made in.

    Raises
    ------
    EstimateError
        An optimizer that is not known.
    """
    if optimizer not in OPTIMIZER_VALUES:
        raise EstimateError(
            f"the optimizer {optimizer!r} is unknown: write {', '.join(OPTIMIZER_VALUES)}"
        )
    of_role = {role: [s for s in spec.storages if s.role == role]
               for role in ("parameter", "buffer", "input")}  # fmt: skip
    trained = [s for s in of_role["parameter"] if s.trained]
    gradients = sum(s.bytes for s in trained)
    one_byte = optimizer == "adam8bit"
    state = sum(s.count for s in trained) if one_byte else gradients
    counters = _STEP_COUNTER * len(trained) if optimizer in _WITH_COUNTER else 0
    activations, unknown, modules = _kept(spec)
    return StepEstimate(
        spec.name,
        sum(s.count for s in of_role["parameter"]),
        sum(s.bytes for s in of_role["parameter"]),
        sum(s.bytes for s in of_role["buffer"]),
        gradients,
        OPTIMIZER_VALUES[optimizer] * state + counters,
        sum(s.bytes for s in of_role["input"]),
        activations,
        max(backward_peak(spec) - activations, 0),
        sum(forward_flops(op) for op in spec.operations),
        sum(backward_flops(op) for op in spec.operations),
        unknown,
        modules,
    )


def _kept(spec: ModelSpec) -> tuple[int, dict[str, int], tuple[ModuleCost, ...]]:
    """Bytes kept, ops without a rule, and both by module."""
    seen: set[int] = set()
    unknown: dict[str, int] = {}
    by_module: dict[str, list[ModuleCost]] = {}
    total = 0
    for op in spec.operations:
        kept = 0
        found = kept_tensors(op)
        if found is None:
            unknown[base_name(op.op)[0]] = unknown.get(base_name(op.op)[0], 0) + 1
        else:
            kept = _bytes_of(spec, found, seen) + _row_sums(op)
        total += kept
        shape = op.outputs[0].shape if op.outputs else ()
        by_module.setdefault(op.module, []).append(
            ModuleCost(op.module, 1, forward_flops(op), kept, shape)
        )
    modules = (
        ModuleCost(
            name, len(costs), sum(c.flops for c in costs), sum(c.kept_bytes for c in costs),
            costs[-1].output,
        )
        for name, costs in by_module.items()
    )  # fmt: skip
    return total, unknown, tuple(modules)


def _bytes_of(
    spec: ModelSpec, found: tuple[tuple[Tensor, ...], Tensor | None], seen: set[int]
) -> int:
    """Bytes of the storages that are kept here for the first time, and of a copy."""
    tensors, copied = found
    total = spec.storages[copied.storage].bytes if copied is not None else 0
    for tensor in tensors:
        storage = spec.storages[tensor.storage]
        if storage.role == "made" and tensor.storage not in seen:
            seen.add(tensor.storage)
            total += storage.bytes
    return total


def _row_sums(op: Operation) -> int:
    """Bytes of the row sums that a fused attention keeps beside its tensors."""
    query = op.input(0)
    if base_name(op.op)[0] != ATTENTION or not op.differentiable or query is None:
        return 0
    return _ACCUMULATED * prod(query.shape[:-1])


def forward_flops(op: Operation) -> int:
    """FLOP of one operation, 0 where it multiplies no matrices."""
    return sum(flops for flops, _ in _products(op))


def backward_flops(op: Operation) -> int:
    """FLOP of its backward pass: a product for each factor that gradients flow through."""
    if base_name(op.op)[0] == ATTENTION:
        # Scores are made again, then four products for the gradients of scores, Q, K and V.
        return forward_flops(op) * 5 // 2 if op.differentiable else 0
    return sum(flops * factors for flops, factors in _products(op))


def _products(op: Operation) -> Iterator[tuple[int, int]]:
    """FLOP of each product of matrices in `op`, and how many of its factors are trained."""
    name, _ = base_name(op.op)
    if name == ATTENTION:
        query, key, value = op.input(0), op.input(1), op.input(2)
        if query is not None and key is not None and value is not None:
            rows = prod(query.shape[:-1]) * key.shape[-2]
            yield 2 * rows * (query.shape[-1] + value.shape[-1]), 0
        return
    first = {"mm": 0, "bmm": 0, "mv": 0, "convolution": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
    if name not in first:
        return
    a, b = op.input(first[name]), op.input(first[name] + 1)
    if a is None or b is None:
        return
    trained = a.differentiable + b.differentiable
    if name == "convolution":
        # A transposed convolution takes each input value through the kernel.
        points = a.shape if op.flags.get("transposed") else op.outputs[0].shape
        yield 2 * prod(points) * prod(b.shape[1:]), trained
    else:
        yield 2 * prod(a.shape) * (b.shape[-1] if name not in {"mv", "addmv"} else 1), trained
