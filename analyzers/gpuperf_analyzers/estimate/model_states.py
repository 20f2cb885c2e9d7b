"""Bytes of parameters, gradients and optimizer state, whole and sharded by ZeRO."""

from __future__ import annotations

from dataclasses import dataclass

from gpuperf_analyzers.estimate.terms import DEFINITION, EIGHT_BIT, MIXED, ZERO, EstimateError, Term

OPTIMIZER_VALUES = {
    "sgd": 0,
    "momentum": 1,
    "adagrad": 1,
    "adam": 2,
    "adamw": 2,
    "adam8bit": 2,
}
"""Values that an optimizer keeps for each parameter."""

_EIGHT_BIT = frozenset({"adam8bit"})
ZERO_STAGES = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes a parameter: of the weight computed with, its gradient, a master copy, each state."""

    name: str
    weight: int
    gradient: int
    master: int
    state: int


PRECISIONS = {
    p.name: p
    for p in (
        Precision("fp32", 4, 4, 0, 4),
        Precision("mixed", 2, 2, 4, 4),
        Precision("mixed-fp32-gradients", 2, 4, 4, 4),
        Precision("bf16", 2, 2, 0, 2),
    )
}
"""``mixed`` is 2+2+12 with Adam; ``bf16`` keeps everything in two bytes, without a master copy."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes a parameter of each kind; ``optimizer`` has the master copy in it."""

    weight: float
    gradient: float
    optimizer: float

    @property
    def total(self) -> float:
        """Bytes a parameter in all."""
        return self.weight + self.gradient + self.optimizer


def state_bytes(optimizer: str = "adam", precision: str = "mixed") -> StateBytes:
    """Bytes a parameter under `optimizer` and `precision`.

    With fp32, parameters and gradients, SGD takes 2 times the parameters' bytes, momentum 3
    times, Adam 4 times. Adam in mixed precision takes 2 + 2 + 12: a master copy and two states
    of 4 bytes each. An 8-bit optimizer keeps each state in one byte (its block scales, 4 bytes a
    block of 256, are left out: 0.8% of the two states and 0.4% at most of all).

    Raises
    ------
    EstimateError
        A name that is not known.
    """
    if optimizer not in OPTIMIZER_VALUES:
        raise EstimateError(
            f"the optimizer {optimizer!r} is unknown: write {', '.join(OPTIMIZER_VALUES)}"
        )
    if precision not in PRECISIONS:
        raise EstimateError(
            f"the precision {precision!r} is unknown: write {', '.join(PRECISIONS)}"
        )
    kind = PRECISIONS[precision]
    state = 1 if optimizer in _EIGHT_BIT else kind.state
    return StateBytes(kind.weight, kind.gradient, kind.master + OPTIMIZER_VALUES[optimizer] * state)


def zero_divisors(stage: int, ways: int) -> tuple[int, int, int]:
    """By what ZeRO `stage` over `ways` ranks divides weights, gradients and optimizer state.

    Stage 1 shards the optimizer state, 2 gradients too, 3 weights too (ZeRO, figure 1).

    Raises
    ------
    EstimateError
        No such stage, or `ways` below 1.
    """
    if stage not in ZERO_STAGES:
        raise EstimateError(f"ZeRO has stages 0 to 3, not {stage!r}")
    if ways < 1:
        raise EstimateError(f"{ways!r} ranks cannot share anything: 1 or more")
    return (ways if stage >= 3 else 1, ways if stage >= 2 else 1, ways if stage >= 1 else 1)


def model_state_terms(
    parameters: float,
    *,
    optimizer: str = "adam",
    precision: str = "mixed",
    zero: int = 0,
    ways: int = 1,
) -> tuple[Term, Term, Term]:
    """Bytes of parameters, gradients and optimizer state on one of `ways` ranks."""
    each = state_bytes(optimizer, precision)
    divisors = zero_divisors(zero, ways)
    values = OPTIMIZER_VALUES[optimizer]
    kind = PRECISIONS[precision]
    size = 1 if optimizer in _EIGHT_BIT else kind.state
    master = f"{kind.master} + " if kind.master else ""
    source = ZERO if ways > 1 and zero else MIXED if kind.master else DEFINITION
    if optimizer in _EIGHT_BIT:
        source = f"{EIGHT_BIT}; {source}"
    formulas = (
        f"{each.weight:g}·N",
        f"{each.gradient:g}·N",
        f"({master}{values} × {size})·N",
    )
    names = ("parameters", "gradients", "optimizer state")
    amounts = (each.weight, each.gradient, each.optimizer)
    return tuple(  # type: ignore[return-value] # three of each
        Term(
            name,
            amount * parameters / divisor,
            "bytes",
            formula + (f" / {divisor}" if divisor > 1 else ""),
            source,
        )
        for name, amount, divisor, formula in zip(names, amounts, divisors, formulas, strict=True)
    )
