"""Medians, quantiles and ratios with intervals that hold without assuming a distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.metrics import Value, absent

CONFIDENCE = 0.95
FEWEST_SAMPLES = 6
"""Fewest samples whose range holds the median with 95%: 1 - 2·0.5^6 = 96.9%; five give 93.75%."""
RESAMPLES = 4000
_SEED = 20240229

Numbers = Sequence[float] | npt.NDArray[np.float64] | npt.NDArray[np.int64]


def median(samples: Numbers) -> float:
    """Median; the mean of the middle two where their number is even.

    Raises
    ------
    ValueError
        No samples.
    """
    if not len(samples):
        raise ValueError("the median of no samples")
    return float(np.median(np.asarray(samples, dtype=np.float64)))


def median_interval(samples: Numbers, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Exact order-statistic interval of the median; None under six samples (at 95%).

    The widest k with 2·P(Binomial(n, 1/2) < k) ≤ 1 − confidence gives (x₍ₖ₎, x₍ₙ₊₁₋ₖ₎).
    """
    return quantile_interval(samples, 0.5, confidence)


def quantile(samples: Numbers, q: float) -> float:
    """Nearest-rank quantile: the smallest sample that at least a share `q` do not exceed.

    Raises
    ------
    ValueError
        No samples, or `q` outside (0, 1].
    """
    if not len(samples):
        raise ValueError("the quantile of no samples")
    if not 0 < q <= 1:
        raise ValueError(f"a quantile is above 0 and at most 1, not {q}")
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    # 1e-9 keeps 0.07 * 100 = 7.000000000000001 from becoming the eighth.
    return float(ordered[max(math.ceil(q * len(ordered) - 1e-9), 1) - 1])


def quantile_interval(
    samples: Numbers, q: float, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Exact order-statistic interval of the quantile `q`; None where the samples do not bound it.

    (x₍ₗ₎, x₍ᵤ₎) with P(B < l) ≤ (1 − confidence)/2 and P(B ≥ u) ≤ (1 − confidence)/2 for
    B ~ Binomial(n, q): each side misses at most half of what is left.
    """
    from scipy.special import bdtr

    n = len(samples)
    if n == 0:
        return None
    tail = (1 - confidence) / 2
    below = bdtr(np.arange(n), n, q)  # below[k] = P(B <= k), k = 0 .. n-1
    lower = int(np.searchsorted(below, tail * (1 + 1e-12), side="right"))
    upper = int(np.searchsorted(below, (1 - tail) * (1 - 1e-12), side="left")) + 1
    if lower < 1 or upper > n:
        return None
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    return float(ordered[lower - 1]), float(ordered[upper - 1])


def ratio_interval(
    numerators: Numbers, denominators: Numbers, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Bootstrap interval of Σ numerators / Σ denominators over steps; None under six steps.

    Pairs are drawn together, with a fixed seed. The percentiles are widened for few samples
    (Hesterberg, 2015: from normal to Student's t with n/(n−1)), since plain ones are too narrow.
    None too where a resample has nothing to divide by.
    """
    from scipy.special import ndtr, stdtrit

    over = np.asarray(numerators, dtype=np.float64)
    under = np.asarray(denominators, dtype=np.float64)
    n = len(over)
    if n < FEWEST_SAMPLES:
        return None
    t = stdtrit(n - 1, (1 - confidence) / 2)
    tail = float(ndtr(math.sqrt(n / (n - 1)) * t))
    draw = np.random.default_rng(_SEED).integers(0, n, size=(RESAMPLES, n))
    total = under[draw].sum(axis=1)
    if np.any(total == 0):
        return None
    low, high = np.quantile(over[draw].sum(axis=1) / total, [tail, 1 - tail])
    return float(low), float(high)


def median_value(name: str, samples: Numbers, source: str = "", at: str = "") -> Value:
    """Median of per-step samples as a Value, with its interval where six or more bound it.

    Raises
    ------
    ValueError
        No samples.
    """
    kept = tuple(float(s) for s in samples)
    return Value(name, median(kept), median_interval(kept), len(kept), source, at=at, samples=kept)


def p99_value(name: str, samples: Numbers, source: str = "", at: str = "") -> Value:
    """99th percentile (nearest rank) of samples as a Value; under 100 samples it is the largest.

    Raises
    ------
    ValueError
        No samples.
    """
    kept = tuple(float(s) for s in samples)
    if len(kept) < 100:
        few = f"the largest of {len(kept)} samples: a 99th percentile takes 100"
        source = f"{few}; {source}" if source else few
    return Value(
        name, quantile(kept, 0.99), quantile_interval(kept, 0.99), len(kept), source, at=at,
        samples=kept,
    )  # fmt: skip


FEWEST_FOR_A_TREND = 6
"""Fewer points than this have no interval of a slope that says anything."""


def trend_value(name: str, levels: Numbers, source: str = "") -> Value:
    """The slope of `levels` over their number, a step each, as a Value with its 95% interval.

    Theil and Sen: the median of the slopes of all pairs, which up to 29% of outliers do not move;
    the interval is by order statistics of the slopes (Sen, 1968). Absent with less than
    :data:`FEWEST_FOR_A_TREND` levels.
    """
    kept = [float(level) for level in levels]
    if len(kept) < FEWEST_FOR_A_TREND:
        reason = f"a trend needs {FEWEST_FOR_A_TREND} steps or more, and there are {len(kept)}"
        return absent(name, reason, source=source)
    from scipy.stats import theilslopes

    # From 0 on: levels of gigabytes would cost the slopes their last digits.
    slope, _, low, high = theilslopes([level - kept[0] for level in kept], alpha=0.95)
    return Value(name, float(slope), (float(low), float(high)), len(kept), source)


def worst_value(
    name: str,
    samples: Numbers,
    labels: Sequence[str] = (),
    source: str = "",
    *,
    higher_is_better: bool = False,
) -> Value:
    """The worst of exact per-step samples as a Value, named by its label.

    Raises
    ------
    ValueError
        No samples.
    """
    kept = tuple(float(s) for s in samples)
    if not kept:
        raise ValueError(f"{name}: the worst of no samples")
    worst = int(np.argmin(kept) if higher_is_better else np.argmax(kept))
    at = labels[worst] if labels else ""
    return Value(name, kept[worst], None, len(kept), source, at=at, samples=kept)


def ratio_value(
    name: str, numerators: Numbers, denominators: Numbers, source: str = "", at: str = ""
) -> Value:
    """Ratio of sums over steps as a Value with its bootstrap interval.

    Raises
    ------
    ValueError
        The denominators sum to zero.
    """
    over = np.asarray(numerators, dtype=np.float64)
    under = np.asarray(denominators, dtype=np.float64)
    if under.sum() == 0:
        raise ValueError(f"{name}: nothing to divide by")
    with np.errstate(invalid="ignore", divide="ignore"):
        each = over / under
    return Value(
        name, float(over.sum() / under.sum()), ratio_interval(over, under), len(over), source,
        at=at, samples=tuple(float(s) for s in each[np.isfinite(each)]),
    )  # fmt: skip
