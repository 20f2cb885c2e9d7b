"""When an A/B comparison looks at its pairs, and what each look may spend of the error rates.

Looking several times and stopping at the first verdict makes errors likelier than one look does.
So each look has a share of the error rate and the shares add up (Bonferroni over looks; a fixed
spending function in the sense of Lan and DeMets, Biometrika 70, 1983): whatever the dependence
between looks, the rates hold over all of them.

Eight pairs are the first at which a FAIL of one test at 1% and a PASS at 2.5% can both come out of
an exact test (2^-8 = 0.39%, the least p-value of eight signs, is within the first share). With a
spread between processes of 3.8% a pair (standard deviation; measured between processes left to
themselves where this was written) eight to twelve pairs find a slowdown of 10%, and 32 tell "no
change" from 3% in nine of ten comparisons; with 2.5%, eight to twelve do in 99 of 100. A quieter
machine ends at the first look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_LOOKS = (8, 12, 20, 32, 48, 64, 96, 128, 192, 256)
FEWEST_PAIRS = _LOOKS[0]
"""Fewest pairs out of which a verdict can come."""
DEFAULT_PAIRS = 32
"""Most pairs that are run unless asked for more or fewer."""
_FIRST_OF_FALSE_ALARMS = 0.4
_FIRST_OF_MISSES = 0.32
"""Shares of the first look: 0.4% and 0.8%, just above 1/256 and 2/256, what eight signs can say."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the pairs so far.

    Attributes
    ----------
    pairs
        After how many pairs.
    false_alarms, misses
        The shares of the two error rates that are spent here, from 0 to 1.
    last
        Whether no pair is run after it.
    """

    pairs: int
    false_alarms: float
    misses: float
    last: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """The looks of a comparison of up to ``most`` pairs, fixed before the first is run.

    Raises
    ------
    ValueError
        Fewer pairs than a verdict takes, or more than 256.
    """

    most: int = DEFAULT_PAIRS

    def __post_init__(self) -> None:
        if not _LOOKS[0] <= self.most <= _LOOKS[-1]:
            raise ValueError(
                f"an A/B comparison takes {_LOOKS[0]} to {_LOOKS[-1]} pairs, not {self.most}: "
                f"fewer than {_LOOKS[0]} cannot tell a change from chance at the error rate stated"
            )

    def __iter__(self) -> Iterator[Look]:
        """The looks in order; the shares of each rate add up to 1."""
        counts = [n for n in _LOOKS if n < self.most]
        # A look two pairs before the last would spend and learn nothing.
        if counts and self.most - counts[-1] < 4 and len(counts) > 1:
            counts.pop()
        counts.append(self.most)
        later = len(counts) - 1
        for index, pairs in enumerate(counts):
            if not later:
                yield Look(pairs, 1.0, 1.0, last=True)
            elif index == 0:
                yield Look(pairs, _FIRST_OF_FALSE_ALARMS, _FIRST_OF_MISSES, last=False)
            else:
                yield Look(
                    pairs,
                    (1 - _FIRST_OF_FALSE_ALARMS) / later,
                    (1 - _FIRST_OF_MISSES) / later,
                    last=index == later,
                )
