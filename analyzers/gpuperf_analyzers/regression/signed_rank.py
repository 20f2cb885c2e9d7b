"""Wilcoxon's signed-rank test and its interval, exact, ties included.

Assumption: under the hypothesis each difference is as likely to be above the hypothetical value
as below it by the same amount (symmetry). Nothing else: no normal distribution, no equal
variances, no absence of outliers or of several modes. Differences of pairs of processes that run
the same code meet it by construction, because which side ran first alternates.

Sources: Wilcoxon, Biometrics Bulletin 1 (1945); the interval by Hodges and Lehmann, Annals of
Mathematical Statistics 34 (1963): Hollander, Wolfe, Chicken, *Nonparametric Statistical Methods*,
3rd ed., 3.1–3.3. The distribution given tied ranks is the permutation distribution over signs.
scipy ranks; its own exact test refuses ties and zeros, which deterministic values have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_LARGEST = 400
"""More would take seconds, and nobody runs as many pairs."""


def signed_rank_p(differences: Sequence[float], centre: float = 0.0) -> tuple[float, float]:
    """P-values of "the centre is `centre` or below" and "... or above".

    The first is small where the differences lie above `centre`, the second where below. One that
    is equal to `centre` counts against either conclusion.

    Raises
    ------
    ValueError
        No differences, more than 400, or one that is not finite.
    """
    values = np.asarray(differences, dtype=np.float64) - centre
    _check(values)
    ranks = _doubled_ranks(np.abs(values))
    survival = _survival(ranks)
    above, below = int(ranks[values > 0].sum()), int(ranks[values < 0].sum())
    return min(1.0, float(survival[above])), min(1.0, float(survival[below]))


def signed_rank_interval(differences: Sequence[float], tail: float) -> tuple[float, float]:
    """Where the centre of symmetry is, each end missing it with probability `tail` at most.

    Ends are averages of two differences (Walsh averages): the k-th smallest and largest with k the
    largest for which P(W < k) ≤ `tail`. An end is infinite where so few differences cannot bound
    it (n < −log2 `tail`).

    Raises
    ------
    ValueError
        As for :func:`signed_rank_p`, or `tail` outside (0, 1/2).
    """
    if not 0 < tail < 0.5:
        raise ValueError(f"the probability of a tail is between 0 and 1/2, not {tail}")
    values = np.asarray(differences, dtype=np.float64)
    _check(values)
    n = len(values)
    total = n * (n + 1) // 2
    at_most = _survival(np.arange(1, n + 1))[::-1]  # P(W <= w) = P(W >= total - w)
    k = int(np.searchsorted(at_most, tail * (1 + 1e-12), side="right"))
    if k == 0:
        return -np.inf, np.inf
    walsh = np.sort(walsh_averages(values))
    return float(walsh[k - 1]), float(walsh[total - k])


def walsh_averages(differences: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The n(n+1)/2 averages of two differences, each with itself too."""
    first, second = np.triu_indices(len(differences))
    return (differences[first] + differences[second]) / 2


def centre_of(differences: Sequence[float]) -> float:
    """The Hodges–Lehmann estimate of the centre: the median of the Walsh averages.

    Raises
    ------
    ValueError
        No differences, or one that is not finite.
    """
    values = np.asarray(differences, dtype=np.float64)
    _check(values)
    return float(np.median(walsh_averages(values)))


def _check(values: npt.NDArray[np.float64]) -> None:
    if not 1 <= len(values) <= _LARGEST:
        raise ValueError(f"a signed-rank test takes 1 to {_LARGEST} differences, not {len(values)}")
    if not np.isfinite(values).all():
        raise ValueError("a difference is not a finite number")


def _doubled_ranks(sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Twice the rank of each size, whole numbers: the mean rank of ties is a whole or a half."""
    from scipy.stats import rankdata

    return np.rint(2 * rankdata(sizes)).astype(np.int64)


def _survival(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """``survival[s]`` = P(sum of the ranks that get a plus sign ≥ s), signs being fair coins."""
    mass = np.zeros(int(ranks.sum()) + 1)
    mass[0] = 1.0
    for rank in ranks:
        half = mass / 2
        mass = half.copy()
        mass[rank:] += half[: len(half) - rank]
    return np.cumsum(mass[::-1])[::-1]
