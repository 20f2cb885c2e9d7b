"""Limits: what the user declared, and the verdict that a value and a limit make.

One vocabulary of verdicts everywhere (:class:`Verdict`). Limits are parsed at pytest's
collection, so this module imports the standard library only.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpuperf_analyzers.device_names import longest_prefix
from gpuperf_analyzers.metrics import RATE_UNITS, Metric, Unit, Value
from gpuperf_analyzers.quantities import QuantityError, parse_quantity, shown
from gpuperf_analyzers.verdicts import Verdict, worst

Direction = Literal["min", "max", "regression", "exact"]
_COUNTED = ("count", "bytes", "FLOP")
"""Units of what can be the same twice."""


class LimitError(ValueError):
    """A limit that cannot be understood: one line that names it and the mend."""


@dataclass(frozen=True, slots=True)
class Target:
    """A limit's number in its metric's unit, as declared for one device or for all.

    ``floor`` is the absolute change below which a regression is none; None elsewhere.
    """

    value: float
    bare: bool
    text: str
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """One declared limit.

    Parameters
    ----------
    keyword
        As declared: ``min_tflops``, ``max_regression``, ``exact``.
    metric
        Name of the metric it speaks of.
    unit
        The metric's unit.
    direction
        ``min``, ``max``, or ``regression``/``exact`` against a baseline.
    default
        The number for every device without an entry of its own, None where there is none.
    by_device
        Numbers by the beginning of a device's name, and ``cpu``.
    """

    keyword: str
    metric: str
    unit: Unit
    direction: Direction
    default: Target | None = None
    by_device: Mapping[str, Target] = field(default_factory=dict)
    default_named: bool = False
    """Whether the default was written as ``"default"`` in a mapping."""

    @property
    def text(self) -> str:
        """The limit as declared, for all devices."""
        if self.direction == "exact":
            return f"exact {self.metric}"
        if self.direction == "regression":
            return f"max_regression of {self.metric}: {self.default.text if self.default else ''}"
        if not self.by_device and not self.default_named and self.default:
            return f"{self.keyword}={self.default.text}"
        entries = {k: t.text for k, t in self.by_device.items()}
        if self.default:
            entries["default"] = self.default.text
        return f"{self.keyword}={{{', '.join(f'{k!r}: {v}' for k, v in entries.items())}}}"

    def target(self, device_name: str, device_type: str) -> tuple[str, Target] | None:
        """The entry for a device and the limit's text with it; None where none was declared."""
        if device_type == "cpu":
            key = "cpu" if "cpu" in self.by_device else None
        else:
            names = [k for k in self.by_device if k != "cpu"]
            key = longest_prefix(device_name, names)
        if key is not None:
            entry = self.by_device[key]
            return f"{self.keyword}[{key!r}]={entry.text}", entry
        if self.default is None:
            return None
        named = "['default']" if self.default_named else ""
        return f"{self.keyword}{named}={self.default.text}", self.default

    def explicit_for_cpu(self, entry: Target) -> bool:
        """Whether `entry` may be judged on a CPU: a bare rate means an accelerator."""
        return not entry.bare or self.unit not in RATE_UNITS or entry is self.by_device.get("cpu")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One limit, one value, one verdict.

    ``limit`` is the number that was judged against, in ``unit``; None where none applied.
    ``reason`` says in one clause why there is no PASS or FAIL; ``""`` where there is.
    """

    text: str
    metric: str
    direction: Direction
    unit: Unit
    verdict: Verdict
    limit: float | None = None
    value: float | None = None
    interval: tuple[float, float] | None = None
    reason: str = ""
    at: str = ""


def parse_limits(
    keywords: Mapping[str, object], metrics: Mapping[str, Metric], *, others: Collection[str] = ()
) -> tuple[Limit, ...]:
    """Limits from keywords such as ``min_tflops=0.5`` or ``max_step_time={"cpu": "3ms"}``.

    Parameters
    ----------
    keywords
        ``min_NAME``/``max_NAME`` of any metric, ``max_regression``, ``exact``.
    metrics
        Every metric by name.
    others
        Further keywords that the caller knows, offered when one is misspelt.

    Raises
    ------
    LimitError
        An unknown keyword, metric or unit, with the nearest names; a number that is none.
    """
    limits: list[Limit] = []
    for keyword, written in keywords.items():
        prefix, _, name = keyword.partition("_")
        if keyword == "max_regression":
            limits += _regressions(written, metrics)
        elif keyword == "exact":
            limits += _exact(written, metrics)
        elif prefix in ("min", "max") and name in metrics:
            limits.append(_limit(keyword, written, metrics[name]))
        else:
            raise LimitError(_unknown(keyword, metrics, others))
    return tuple(limits)


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean A, B or C?"`` for a misspelt `name`, or ``""`` where nothing is near."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    if not close:
        return ""
    head = ", ".join(close[:-1])
    return f"; did you mean {head} or {close[-1]}?" if head else f"; did you mean {close[0]}?"


def _unknown(keyword: str, metrics: Mapping[str, Metric], others: Collection[str]) -> str:
    known = [f"{p}_{name}" for name in metrics for p in ("min", "max")]
    hint = nearest(keyword, [*known, "max_regression", "exact", *others])
    return f"unknown keyword {shown(keyword)}{hint or '; `gpuperf metrics` lists every metric'}"


def _limit(keyword: str, written: object, metric: Metric) -> Limit:
    direction: Direction = "min" if keyword.startswith("min_") else "max"
    if not isinstance(written, Mapping):
        return Limit(
            keyword, metric.name, metric.unit, direction, _target(keyword, written, metric)
        )
    if not written:
        raise LimitError(f"{keyword}: an empty mapping declares no limit")
    entries: dict[str, Target] = {}
    for key, value in written.items():
        if not isinstance(key, str) or not key.strip():
            raise LimitError(f"{keyword}: {shown(key)} is not a device name")
        entries[key] = _target(f"{keyword}[{shown(key)}]", value, metric)
    default = entries.pop("default", None)
    return Limit(
        keyword, metric.name, metric.unit, direction, default, entries, default is not None
    )


def _target(label: str, written: object, metric: Metric) -> Target:
    # The name of tflops is its unit; every other dimensioned metric needs one written.
    unit_in_name = metric.name == metric.unit.lower()
    try:
        quantity = parse_quantity(written, metric.unit, bare_allowed=unit_in_name)
    except QuantityError as error:
        raise LimitError(f"{label}: {error}") from None
    return Target(quantity.value, quantity.bare, shown(written))


def _regressions(written: object, metrics: Mapping[str, Metric]) -> list[Limit]:
    by_metric = written if isinstance(written, Mapping) else {"step_time": written}
    limits: list[Limit] = []
    for name, allowed in by_metric.items():
        metric = _known_metric("max_regression", name, metrics)
        relative, floor = allowed, None
        if isinstance(allowed, (tuple, list)) and len(allowed) == 2:
            relative, floor = allowed
        try:
            share = parse_quantity(relative, "fraction")
            least = None if floor is None else parse_quantity(floor, metric.unit).value
        except QuantityError as error:
            raise LimitError(f"max_regression[{shown(name)}]: {error}") from None
        target = Target(share.value, share.bare, shown(allowed), least)
        limits.append(Limit("max_regression", name, metric.unit, "regression", target))
    if not limits:
        raise LimitError("max_regression: an empty mapping declares no limit")
    return limits


def _exact(written: object, metrics: Mapping[str, Metric]) -> list[Limit]:
    # A tensor or array says that it can be iterated, and may raise when it is.
    if not isinstance(written, (list, tuple, set, frozenset)):
        raise LimitError(f"exact: {shown(written)} is not a list of metrics")
    found = [_known_metric("exact", name, metrics) for name in written]
    if not found:
        raise LimitError("exact: an empty list declares no limit")
    for metric in found:
        if metric.unit not in _COUNTED or metric.source.startswith("NVML"):
            raise LimitError(
                f"exact: {metric.name} is sampled and never twice the same: "
                f'max_regression={{"{metric.name}": "3%"}} holds it'
            )
    return [Limit("exact", m.name, m.unit, "exact") for m in found]


def _known_metric(keyword: str, name: object, metrics: Mapping[str, Metric]) -> Metric:
    if not isinstance(name, str) or name not in metrics:
        raise LimitError(f"{keyword}: unknown metric {shown(name)}{nearest(shown(name), metrics)}")
    return metrics[name]


def judge(
    values: Mapping[str, Value],
    limits: Iterable[Limit],
    *,
    device_name: str,
    device_type: str,
    invalid: Mapping[str, str],
) -> tuple[Judgement, ...]:
    """Each limit against its metric's value.

    Parameters
    ----------
    values
        One value a metric; a metric without one is not measured.
    limits
        What was declared.
    device_name, device_type
        Where it was measured: the driver's name and ``cuda``, or ``cpu`` twice.
    invalid
        Metrics whose data cannot be judged, with the reason.
    """
    return tuple(
        _judge_one(limit, values.get(limit.metric), device_name, device_type, invalid)
        for limit in limits
    )


def _judge_one(
    limit: Limit,
    value: Value | None,
    device_name: str,
    device_type: str,
    invalid: Mapping[str, str],
) -> Judgement:
    shown = value if value is not None else Value(limit.metric, None, absent_reason="not measured")

    def say(
        verdict: Verdict, reason: str, *, text: str = limit.text, bound: float | None = None
    ) -> Judgement:
        return Judgement(
            text, limit.metric, limit.direction, limit.unit, verdict, bound,
            shown.value, shown.interval, reason, shown.at,
        )  # fmt: skip

    if limit.metric in invalid:
        return say(Verdict.INVALID, invalid[limit.metric])
    if limit.direction in ("regression", "exact"):
        return say(Verdict.NO_BASELINE, f"no baseline of {limit.metric} is stored")
    found = limit.target(device_name, device_type)
    if found is None:
        return say(Verdict.UNMEASURED, f"no limit declared for {device_name}")
    text, entry = found
    if device_type == "cpu" and not limit.explicit_for_cpu(entry):
        mend = f'write {{"cpu": {entry.text}}} or "{entry.text}{limit.unit}"'
        reason = f"a bare {limit.unit} limit means an accelerator; for the CPU {mend}"
        return say(Verdict.UNMEASURED, reason, text=text)
    if shown.value is None:
        reason = shown.absent_reason or "not measured"
        return say(Verdict.UNMEASURED, reason, text=text, bound=entry.value)
    verdict = compare(shown.value, shown.interval, limit.direction, entry.value)
    return say(verdict, _REASON.get(verdict, ""), text=text, bound=entry.value)


_REASON = {
    Verdict.AMBIGUOUS: "the interval straddles the limit",
    Verdict.INVALID: "the value is not a number",
}


def compare(
    value: float, interval: tuple[float, float] | None, direction: Direction, bound: float
) -> Verdict:
    """PASS if all of the interval meets the bound, FAIL if none does, else AMBIGUOUS.

    Without an interval the value is taken exactly. The bound itself meets the limit. INVALID
    where the value is not a number.
    """
    low, high = interval if interval is not None else (value, value)
    if not low <= high:  # also true of NaN
        return Verdict.INVALID
    meets: Callable[[float], bool]
    if direction == "min":
        meets, best, least = (lambda v: v >= bound), high, low
    else:
        meets, best, least = (lambda v: v <= bound), low, high
    if meets(least):
        return Verdict.PASS
    return Verdict.AMBIGUOUS if meets(best) else Verdict.FAIL


__all__ = [
    "Direction",
    "Judgement",
    "Limit",
    "LimitError",
    "Target",
    "Verdict",
    "compare",
    "judge",
    "nearest",
    "parse_limits",
    "worst",
]
