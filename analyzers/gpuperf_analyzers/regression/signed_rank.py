"""A signed-rank test with capped ranks, its interval and its centre, exact, ties included.

As in Wilcoxon's test each difference is ranked by its size, and the ranks of those above the
hypothetical value are summed; but no rank counts for more than half of the number of differences.
So the largest half of them counts alike, and a process that was hit by something else, which makes
a difference of any size and either sign, weighs no more than a middling one. Of normal noise that
costs a few percent of the pairs; where one process in twelve is hit, up to 24 pairs find 90 of 100
slowdowns of a tenth, and with Wilcoxon's ranks 78.

Assumption: under the hypothesis each difference is as likely to be above the hypothetical value
as below it by the same amount (symmetry). Nothing else: no normal distribution, no equal
variances, no absence of outliers or of several modes. Differences of pairs of processes that run
the same code meet it by construction, because which side ran first alternates.

The distribution is that of the signs being fair coins, given the sizes, which is exact for any
scores that depend on the sizes alone: Hájek, Šidák, Sen, *Theory of Rank Tests*, 2nd ed., on
signed-rank tests of symmetry. The interval is the set of values that the test does not reject:
Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963). scipy ranks; its own exact test
has Wilcoxon's ranks only, and refuses ties and zeros, which values that hardly vary have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_LARGEST = 400
"""More would take seconds, and nobody runs as many pairs."""

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def signed_rank_p(differences: Sequence[float], centre: float = 0.0) -> tuple[float, float]:
    """P-values of "the centre is `centre` or below" and "... or above".

    The first is small where the differences lie above `centre`, the second where below. One that
    is equal to `centre` counts against either conclusion.

    Raises
    ------
    ValueError
        No differences, more than 400, or one that is not finite.
    """
    values = _checked(differences) - centre
    sizes = np.abs(values)
    scores = _scores(sizes)
    untied = len(np.unique(sizes)) == len(sizes)
    survival = _untied_survival(len(sizes)) if untied else _survival(scores)
    above, below = int(scores[values > 0].sum()), int(scores[values < 0].sum())
    return min(1.0, float(survival[above])), min(1.0, float(survival[below]))


def signed_rank_interval(differences: Sequence[float], tail: float) -> tuple[float, float]:
    """Where the centre of symmetry is, each end missing it with probability `tail` at most.

    Ends are averages of two differences (Walsh averages), since only there does the test change
    its mind. An end is infinite where so few differences cannot bound it (n < −log2 `tail`).

    Raises
    ------
    ValueError
        As for :func:`signed_rank_p`, or `tail` outside (0, 1/2).
    """
    if not 0 < tail < 0.5:
        raise ValueError(f"the probability of a tail is between 0 and 1/2, not {tail}")
    values = _checked(differences)
    walsh, above, below = _sums_of(tuple(values.tolist()))
    survival = _untied_survival(len(values))
    level = tail * (1 + 1e-12)
    rejected_below = int((survival[above] <= level).sum())
    rejected_above = int((survival[below] <= level).sum())
    if not (rejected_below and rejected_above):
        return -np.inf, np.inf
    return float(walsh[rejected_below - 1]), float(walsh[len(walsh) - rejected_above])


def centre_of(differences: Sequence[float]) -> float:
    """The centre that the test finds as likely too low as too high.

    Raises
    ------
    ValueError
        No differences, more than 400, or one that is not finite.
    """
    walsh, above, below = _sums_of(tuple(_checked(differences).tolist()))
    low, high = int((above > below).sum()), int((above >= below).sum())
    return float((walsh[low - 1] + walsh[high - 1]) / 2)


def _checked(differences: Sequence[float]) -> Floats:
    values = np.asarray(differences, dtype=np.float64)
    if not 1 <= len(values) <= _LARGEST:
        raise ValueError(f"a signed-rank test takes 1 to {_LARGEST} differences, not {len(values)}")
    if not np.isfinite(values).all():
        raise ValueError("a difference is not a finite number")
    return values


def _cap(count: int) -> int:
    """Twice the largest rank that counts: half of the number of differences, rounded up."""
    return 2 * ((count + 1) // 2)


def _scores(sizes: Floats) -> Whole:
    """Twice the capped rank of each size, whole numbers: a mean rank of ties may be a half."""
    from scipy.stats import rankdata

    doubled = np.rint(2 * np.asarray(rankdata(sizes), dtype=np.float64)).astype(np.int64)
    return np.asarray(np.minimum(doubled, _cap(len(sizes))), dtype=np.int64)


def _untied_scores(count: int) -> Whole:
    scores = np.minimum(2 * np.arange(1, count + 1, dtype=np.int64), _cap(count))
    return np.asarray(scores, dtype=np.int64)


def _survival(scores: Whole) -> Floats:
    """``survival[s]`` = P(sum of the scores that get a plus sign ≥ s), signs being fair coins."""
    mass = np.zeros(int(scores.sum()) + 1)
    mass[0] = 1.0
    for score in scores:
        half = mass / 2
        mass = half.copy()
        mass[score:] += half[: len(half) - score]
    return np.asarray(np.cumsum(mass[::-1])[::-1], dtype=np.float64)


@lru_cache(maxsize=64)
def _untied_survival(count: int) -> Floats:
    return _survival(_untied_scores(count))


@lru_cache(maxsize=4)
def _sums_of(values: tuple[float, ...]) -> tuple[Floats, Whole, Whole]:
    """The interval and the centre of the same differences are asked for one after the other."""
    return _between_walsh(np.asarray(values, dtype=np.float64))


def _between_walsh(values: Floats) -> tuple[Floats, Whole, Whole]:
    """The Walsh averages in order, and the sums of scores above and below between each two.

    The sums are of a value below all averages, one between each two, and one above all: one more
    than averages. They fall and rise with the value, so that counting finds where they cross.
    """
    first, second = np.triu_indices(len(values))
    walsh = np.unique((values[first] + values[second]) / 2)
    outside = [walsh[0] - 1.0, walsh[-1] + 1.0]
    at = np.concatenate((outside[:1], (walsh[:-1] + walsh[1:]) / 2, outside[1:]))
    untied = _untied_scores(len(values))
    above, below = np.empty(len(at), dtype=np.int64), np.empty(len(at), dtype=np.int64)
    for start in range(0, len(at), 4096):
        distance = values[None, :] - at[start : start + 4096, None]
        ranks = np.abs(distance).argsort(axis=1, kind="stable").argsort(axis=1)
        scores = untied[ranks]
        above[start : start + 4096] = (scores * (distance > 0)).sum(axis=1)
        below[start : start + 4096] = (scores * (distance < 0)).sum(axis=1)
    return walsh, above, below
