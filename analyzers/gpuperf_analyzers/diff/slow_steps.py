"""Steps after that took much longer than steps did before, and what took the time in each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gpuperf_analyzers import stats
from gpuperf_analyzers.diff.changes import Change, Diff

SLOW = 1.5
"""A step this many times as long as the median step before is slow."""


@dataclass(frozen=True, slots=True)
class SlowStep:
    """One slow step.

    ``times`` is its length over the median step before. ``cause`` is the op (or cause of idle
    time) whose time in it is furthest above that op's mean before, ``cause_us`` by how much.
    """

    name: str
    at: str
    us: float
    times: float
    cause: Change
    cause_us: float


def slow_steps(found: Diff) -> tuple[SlowStep, ...]:
    """Every step after that is slow, the slowest first; empty where the steps before had no length.

    All steps are looked at: a change that comes with a later step is one.
    """
    usual = stats.median([s.ns for s in found.before.steps])
    slow = []
    for i, step in enumerate(found.after.steps):
        if usual and step.ns >= SLOW * usual:
            more = {c: _above(c, i) for c in found.changes if c.after is not None}
            cause = max(more, key=lambda c: more[c])
            slow.append(
                SlowStep(step.name, step.at, step.ns / 1e3, step.ns / usual, cause,
                         float(more[cause] / 1000))
            )  # fmt: skip
    return tuple(sorted(slow, key=lambda s: -s.times))


def _above(change: Change, step: int) -> Fraction:
    before = Fraction(0) if change.before is None else change.before.ns
    now = change.steps_after[step] if change.steps_after else 0
    return now - before
