"""Samples that one median does not describe: they drift, or they are of two kinds.

Both need an effect that matters (5%) beside the evidence for it, so that plain noise, however
many samples there are of it, is neither.

Drift: Spearman's rank correlation r between the samples and their order. Without drift r·√(n−1)
is close to standard normal; p below 0.001 is evidence. The effect is the median of the last third
against that of the first.

Two kinds: the cut that leaves the least variance on its two sides, the extreme 2% at either end
apart. Evidence is Ashman's D (the distance of the means over the root mean square of the standard
deviations) above 4 (two halves of a normal distribution have 2.6, of a uniform one 3.5), a
tenth of the samples on each side, and less than a twentieth of them in the middle half between
the means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

FEWEST = 40
"""Fewest samples that either is told of."""
EFFECT = 0.05
_P = 0.001
_TRIM = 0.02
_FEWEST_SHARE = 0.1
_VALLEY = 0.05
_ASHMAN = 4.0


@dataclass(frozen=True, slots=True)
class Kinds:
    """Two kinds of samples.

    Attributes
    ----------
    low_us, high_us
        Median of each.
    high_share
        Share of samples that are of the slower kind.
    """

    low_us: float
    high_us: float
    high_share: float


def drift(samples_us: Sequence[float]) -> float | None:
    """Last third over first third, - 1, where the samples drift; None where they do not."""
    import numpy as np
    from scipy.special import ndtr

    samples = np.asarray(samples_us, dtype=np.float64)
    n = len(samples)
    if n < FEWEST or samples.min() == samples.max():
        return None
    ranks = _ranks(samples)
    order = np.arange(n, dtype=np.float64)
    rho = float(np.corrcoef(ranks, order)[0, 1])
    if 2 * float(ndtr(-abs(rho) * math.sqrt(n - 1))) >= _P:
        return None
    third = n // 3
    first, last = float(np.median(samples[:third])), float(np.median(samples[-third:]))
    if first <= 0 or abs(last / first - 1) < EFFECT:
        return None
    return last / first - 1


def _ranks(samples: Array) -> Array:
    """Ranks from 0, equal samples sharing the mean of theirs."""
    import numpy as np

    _, where, counts = np.unique(samples, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Array = (ends - (counts + 1) / 2)[where]
    return shared


def two_kinds(samples_us: Sequence[float]) -> Kinds | None:
    """The two kinds that the samples are of; None where they are of one."""
    import numpy as np

    ordered = np.sort(np.asarray(samples_us, dtype=np.float64))
    if len(ordered) < FEWEST:
        return None
    trim = int(len(ordered) * _TRIM)
    kept = ordered[trim : len(ordered) - trim]
    n = len(kept)
    cut = _best_cut(kept)
    low, high = kept[:cut], kept[cut:]
    if min(len(low), len(high)) < _FEWEST_SHARE * n:
        return None
    distance = float(high.mean() - low.mean())
    spread = math.sqrt((float(low.var()) + float(high.var())) / 2)
    if distance <= _ASHMAN * spread or float(np.median(high)) < (1 + EFFECT) * np.median(low):
        return None
    from_us, to_us = low.mean() + distance / 4, high.mean() - distance / 4
    between = int(np.count_nonzero((kept > from_us) & (kept < to_us)))
    if between >= _VALLEY * n:
        return None
    return Kinds(float(np.median(low)), float(np.median(high)), len(high) / n)


def _best_cut(ordered: Array) -> int:
    """Where to cut sorted samples so that least variance is left within the two parts."""
    import numpy as np

    n = len(ordered)
    left = np.arange(1, n, dtype=np.float64)
    sums = np.cumsum(ordered)[:-1]
    total = float(ordered.sum())
    # The sum of squares between the parts is largest where the sum within them is least.
    between = left * (n - left) * (sums / left - (total - sums) / (n - left)) ** 2
    return int(np.argmax(between)) + 1


def shape_notes(samples_us: Sequence[float]) -> tuple[str, ...]:
    """What a median alone would hide of the samples, one line each."""
    notes = []
    change = drift(samples_us)
    if change is not None:
        way = "slower" if change > 0 else "faster"
        notes.append(
            f"the samples drift: the last third is {abs(change):.0%} {way} than the first "
            "(heat, clocks, other load, growing state; or a longer warmup=)"
        )
    kinds = two_kinds(samples_us)
    if kinds is not None:
        notes.append(
            f"the samples are of two kinds: {1 - kinds.high_share:.0%} near {kinds.low_us:.4g} µs "
            f"and {kinds.high_share:.0%} near {kinds.high_us:.4g} µs; the median is of one of them"
        )
    return tuple(notes)
