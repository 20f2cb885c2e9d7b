"""One value of many: the worst device or rank, named; and what the others look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuperf_analyzers.metrics import Metric, Value, absent


@dataclass(frozen=True, slots=True)
class Spread:
    """One metric over several ranks.

    ``mean``, ``lowest`` and ``highest`` are over the ranks that have a value (``n`` of them);
    ``worst_at`` names the worst by the metric's direction.
    """

    metric: str
    mean: float
    lowest: float
    highest: float
    n: int
    worst_at: str


def worst_of(metric: Metric, parts: Sequence[tuple[str, Value]]) -> Value:
    """The worst of the present values, its label in ``at``; absent with the reason where none is.

    Parameters
    ----------
    metric
        Says which direction is worse.
    parts
        Label (``rank 3``, ``device 0``; "" for an only part) and value of each.
    """
    present = [(label, value) for label, value in parts if value.value is not None]
    if not present:
        reasons = dict.fromkeys(v.absent_reason or "" for _, v in parts)
        return absent(metric.name, "; ".join(reasons) or "not measured")
    sign = -1.0 if metric.better == "higher" else 1.0
    label, value = max(present, key=lambda part: sign * (part[1].value or 0.0))
    return replace(value, at=", ".join(text for text in (label, value.at) if text))


def spread_of(metric: Metric, parts: Sequence[tuple[str, Value]]) -> Spread | None:
    """Mean, extremes and the worst of the present values; None where none is."""
    present = [(label, value.value) for label, value in parts if value.value is not None]
    if not present:
        return None
    numbers = [number for _, number in present]
    pick = min if metric.better == "higher" else max
    at = pick(present, key=lambda part: part[1])[0]
    mean = sum(numbers) / len(numbers)
    return Spread(metric.name, mean, min(numbers), max(numbers), len(numbers), at)


def value_json(value: Value, unit: str) -> dict[str, Any]:
    """A value as plain JSON types, with its unit."""
    return {
        "value": value.value,
        "unit": unit,
        "interval": None if value.interval is None else list(value.interval),
        "n": value.n,
        "source": value.source,
        "absent_reason": value.absent_reason,
        "at": value.at,
    }


def values_json(
    values: Mapping[str, Value], metrics: Mapping[str, Metric]
) -> dict[str, dict[str, Any]]:
    """All values as plain JSON types, in the order of `metrics`."""
    return {name: value_json(values[name], m.unit) for name, m in metrics.items() if name in values}
