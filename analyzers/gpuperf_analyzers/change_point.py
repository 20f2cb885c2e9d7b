"""Where a series of runs changed its level: maximally selected rank statistics.

For every split of the series into an earlier and a later part the Wilcoxon rank-sum statistic is
standardised by its mean and variance under exchangeability; the largest of them is the candidate.
Its p-value is that of the maximum, by random permutations of the series: choosing the best of all
splits is part of what is tested (Hothorn and Lausen, Computational Statistics & Data Analysis 43,
2003; Pettitt, Applied Statistics 28, 1979, is the same without standardising). Both parts of a
found change are searched again (binary segmentation).

Assumes that without a change the runs are exchangeable: of a slow drift it finds a step where the
drift is half over. Ranks make it blind to outliers, and the permutations make no assumption on the
shape of the noise. A series that does not vary by nature (an exact count) needs no statistics:
every step of it is a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuperf_analyzers.stats import median

ALPHA = 0.01
"""Probability that a series without a change is said to have one."""
PERMUTATIONS = 1999
FEWEST = 8
"""Runs below which no split can be significant at :data:`ALPHA`: of 4 and 4 it is 2/70 at best."""
SMALLEST = 0.01
"""Change of level, as a share, below which none is told."""
_MOST = 512
"""Latest runs of a series that are looked at."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of level.

    Attributes
    ----------
    index
        The first run of the new level.
    before, after
        Median of the level before and after, up to the neighbouring changes.
    p
        Of the maximum over all splits; 0 for an exact count.
    """

    index: int
    before: float
    after: float
    p: float

    @property
    def relative(self) -> float:
        """The change as a fraction of the level before; infinite from 0."""
        if self.before == 0:
            return float("inf") if self.after > 0 else float("-inf") if self.after < 0 else 0.0
        return (self.after - self.before) / abs(self.before)


def changes(
    values: Sequence[float],
    *,
    exact: bool = False,
    alpha: float = ALPHA,
    smallest: float = SMALLEST,
    seed: int = 0,
) -> tuple[Change, ...]:
    """The changes of level in `values`, which are in order of the runs.

    Parameters
    ----------
    values
        One a run, finite.
    exact
        Whether they do not vary by nature.
    alpha
        Level of each search.
    smallest
        Least relative change that is told, where they vary.
    seed
        Of the permutations: the same series gives the same answer.
    """
    if exact:
        steps = [i for i in range(1, len(values)) if values[i] != values[i - 1]]
        return tuple(Change(i, values[i - 1], values[i], 0.0) for i in steps)
    offset = max(0, len(values) - _MOST)
    kept = np.asarray(values[offset:], dtype=np.float64)
    rng = np.random.default_rng(seed)
    found: list[tuple[int, float]] = []
    _search(kept, 0, alpha, rng, found)
    splits = sorted(found)
    bounds = [0, *(index for index, _ in splits), len(kept)]
    made = []
    for place, (index, p) in enumerate(splits, 1):
        before = median(kept[bounds[place - 1] : index].tolist())
        after = median(kept[index : bounds[place + 1]].tolist())
        change = Change(index + offset, before, after, p)
        if abs(change.relative) >= smallest:
            made.append(change)
    return tuple(made)


def _search(
    values: Any, start: int, alpha: float, rng: np.random.Generator, found: list[tuple[int, float]]
) -> None:
    if len(values) < FEWEST:
        return
    index, p = best_split(values, rng)
    if p > alpha:
        return
    found.append((start + index, p))
    _search(values[:index], start, alpha, rng, found)
    _search(values[index:], start + index, alpha, rng, found)


def best_split(values: Any, rng: np.random.Generator) -> tuple[int, float]:
    """The split with the largest standardised rank sum, and the p-value of that maximum."""
    from scipy.stats import rankdata

    ranks = rankdata(values)
    n = len(ranks)
    if np.ptp(ranks) == 0:
        return n // 2, 1.0
    statistic = _standardised(ranks[None, :])[0]
    index = int(np.argmax(statistic)) + 1
    shuffled = rng.permuted(np.tile(ranks, (PERMUTATIONS, 1)), axis=1)
    highest = _standardised(shuffled).max(axis=1)
    as_high = int((highest >= statistic[index - 1] * (1 - 1e-12)).sum())
    return index, (as_high + 1) / (PERMUTATIONS + 1)


def _standardised(ranks: Any) -> Any:
    """|rank sum of the first k − its mean| / its standard deviation, for k from 1 to n − 1.

    Mean k·r̄ and variance k(n − k)/n · s² of a sum of k ranks drawn without replacement.
    """
    n = ranks.shape[1]
    k = np.arange(1, n)
    sums = np.cumsum(ranks, axis=1)[:, :-1]
    spread = np.sqrt(k * (n - k) / n * ranks.var(axis=1, ddof=1, keepdims=True))
    return np.abs(sums - k * ranks.mean(axis=1, keepdims=True)) / spread
