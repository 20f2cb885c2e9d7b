"""The one vocabulary of verdicts, and which of several stands. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Verdict(str, Enum):
    """What is said of a limit, a measurement or a test; the members stand from worst to best."""

    FAIL = "FAIL"
    """No part of the value's interval meets the limit."""
    INVALID = "INVALID"
    """The data cannot be judged."""
    INCOMPARABLE = "INCOMPARABLE"
    """The baseline is of another GPU, driver, torch or policy."""
    NO_BASELINE = "NO-BASELINE"
    """Nothing stored to compare with."""
    AMBIGUOUS = "AMBIGUOUS"
    """The interval straddles the limit."""
    UNMEASURED = "UNMEASURED"
    """No such counter, device or value here."""
    PASS = "PASS"  # noqa: S105 - a verdict, not a password

    def fails(self, *, strict: bool = False) -> bool:
        """Whether a test of this verdict fails: FAIL and INVALID do, all but PASS if `strict`."""
        if strict:
            return self is not Verdict.PASS
        return self in (Verdict.FAIL, Verdict.INVALID)

    @property
    def soft(self) -> bool:
        """Whether this verdict passes a test with a warning line."""
        return self is not Verdict.PASS and not self.fails()

    def __str__(self) -> str:
        return self.value


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst verdict of several, in the order of :class:`Verdict`; PASS where there is none."""
    order = list(Verdict)
    return min(verdicts, key=order.index, default=Verdict.PASS)
