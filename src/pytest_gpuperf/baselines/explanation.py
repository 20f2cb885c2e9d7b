"""What accounts for a change since the baseline: ops, counts, clocks, other processes, versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted, show
from gpuperf_analyzers.limits import Judgement, Verdict
from gpuperf_analyzers.metrics import BUILTIN
from gpuperf_analyzers.stats import median
from pytest_gpuperf.baselines.environment import differences
from pytest_gpuperf.baselines.model import Baseline, Entry
from pytest_gpuperf.baselines.observation import Observation

if TYPE_CHECKING:
    from gpuperf_analyzers.diff import Diff

_TIMES = ("us", "items/s", "TFLOPS", "GB/s", "fraction")
_CLOCK_TOLD = 0.02
"""Change of the SM clock from which on it is said."""
_TOP = 3


def explained(
    judged: Sequence[Judgement], entry: Entry, baseline: Baseline, now: Observation
) -> tuple[str, ...]:
    """Lines for the failure text; empty where nothing got worse."""
    worse = [j for j in judged if j.verdict in (Verdict.FAIL, Verdict.AMBIGUOUS)]
    worse = [j for j in worse if j.verdict is Verdict.FAIL or j.direction == "regression"]
    if not worse:
        return ()
    lines: list[str] = []
    found = diff_since(entry, now)
    for judgement in worse:
        if judgement.verdict is Verdict.FAIL:
            lines += _of_count(judgement, found, entry, now)
    red = any(j.verdict is Verdict.FAIL for j in worse)
    told = [j for j in worse if not red or j.verdict is Verdict.FAIL]
    if found is not None and any(_is_time(j) for j in told):
        from gpuperf_analyzers.diff import regression_text

        lines.append(f"in profiled steps: {regression_text(found, _TOP)}")
        lines[-1:] = lines[-1].splitlines()
    lines += _conditions(told, entry, baseline, now)
    return tuple(dict.fromkeys(lines))


def changes_of(
    entry: Entry, now: Observation, name: str, *, without: frozenset[str]
) -> Iterator[str]:
    """What changed since the baseline of what no limit judges, a note each; `without` some.

    Of a sampled value the change of the medians is told with the range between saved runs, and
    nothing is said of its significance: that takes a limit.
    """
    units = {m.name: m.unit for m in BUILTIN}
    for metric, (value, _, _) in now.sampled.items():
        saved = [s.value for s in entry.sampled.get(metric, ())]
        if metric in without or not saved:
            continue
        unit, middle = units.get(metric, ""), median(saved)
        change = f"{(value - middle) / middle:+.1%}" if middle else "from 0"
        runs = counted(len(saved), "run")
        between = f", {show(min(saved), unit)} to {show(max(saved), unit)} in {runs}"
        yield (
            f"{metric} {show(value, unit)} against {show(middle, unit)} in the baseline "
            f"{name!r} ({change}{between if saved[1:] else ', of one run'}; not judged)"
        )
    for metric, (low, high, reason) in now.counts.items():
        stored = entry.count(metric)
        if metric in without or stored is None or reason or not stored.exact:
            continue
        if (low, high) != (stored.low, stored.high):
            unit = units.get(metric, "")
            yield (
                f"{metric} {show(high, unit)} against {show(stored.high, unit)} in the baseline "
                f"{name!r} (not judged)"
            )


def _is_time(judgement: Judgement) -> bool:
    unit = next((m.unit for m in BUILTIN if m.name == judgement.metric), judgement.unit)
    return unit in _TIMES


def diff_since(entry: Entry, now: Observation) -> Diff | None:
    """The two op tables, matched; None where one is missing or cannot be read."""
    from gpuperf_analyzers.diff import diff
    from pytest_gpuperf.baselines.op_tables import unpacked

    if not entry.ops or not now.ops:
        return None
    try:
        return diff(unpacked(entry.ops["table"]), unpacked(now.ops["table"]))
    except (ValueError, KeyError, TypeError):
        return None


def _of_count(
    judgement: Judgement, found: Diff | None, entry: Entry, now: Observation
) -> Iterator[str]:
    """The ops that add to a count, by name."""
    from gpuperf_analyzers.diff.moved_counts import (
        MOVED_UNIT,
        moved_by,
        moved_flops,
        moved_text,
    )

    metric = judgement.metric
    unit = MOVED_UNIT.get(metric, "count")
    if metric == "flops":
        before, after = ((o or {}).get("flops") or {} for o in (entry.ops, now.ops))
        text = moved_text(moved_flops(before, after), unit)
    elif metric in ("allocations", "peak_memory", "peak_memory_growth"):
        text = _of_memory(metric, entry, now)
    else:
        text = moved_text(moved_by(found, metric), unit) if found is not None else ""
    if text:
        yield f"{metric.replace('_', ' ')}: {text}"


def _of_memory(metric: str, entry: Entry, now: Observation) -> str:
    """The ops that allocate more: in number, or in bytes."""
    from gpuperf_analyzers.diff.moved_counts import moved_flops, moved_text

    index = 0 if metric == "allocations" else 1
    sides = [
        {op: both[index] for op, both in ((o or {}).get("allocations") or {}).items()}
        for o in (entry.ops, now.ops)
    ]
    unit = "count" if metric == "allocations" else "bytes"
    text = moved_text(moved_flops(*sides), unit)
    return text if metric == "allocations" or not text else f"allocated by {text}"


def _conditions(
    worse: Sequence[Judgement], entry: Entry, baseline: Baseline, now: Observation
) -> Iterator[str]:
    """Whether clocks, other processes or versions explain it instead."""
    if any(_is_time(j) for j in worse):
        yield from _clock(entry, now)
        if now.disturbed:
            yield f"meanwhile: {now.disturbed}"
    run = next((r for r in reversed(baseline.runs) if r.number in entry.runs), None)
    if run is not None:
        changed = differences(run.others, now.others)
        if changed:
            yield f"also changed: {'; '.join(changed)}"
        if run.commit and run.commit != now.commit:
            since = now.commit[:12] or "no commit"
            yield f"since commit {run.commit[:12]} ({run.at[:10]}), now at {since}"


def _clock(entry: Entry, now: Observation) -> Iterator[str]:
    """What a lower SM clock alone would do to a time, where it moved by 2% or more."""
    before, after = entry.alongside.get("sm_clock"), now.alongside.get("sm_clock")
    if not before or not after or abs(after / before - 1) < _CLOCK_TOLD:
        return
    slower = before / after - 1
    yield (
        f"SM clock {show(before, 'MHz')} → {show(after, 'MHz')}: that alone would make what is "
        f"bound by the clock {'slower' if slower > 0 else 'faster'} by {abs(slower):.1%}"
    )
