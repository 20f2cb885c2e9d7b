"""A stored baseline as tables: its environment and runs, then each test."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import show
from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.cli.console import emit, make_console, table, words

if TYPE_CHECKING:
    from pytest_gpuperf.baselines.model import Baseline, CountSince, Entry, Name
    from pytest_gpuperf.baselines.store import EnvironmentFile

_UNITS = {m.name: m.unit for m in BUILTIN}


def print_baseline(
    file: EnvironmentFile, name: str, baseline: Baseline, picked: Sequence[Name]
) -> None:
    """Print the environment, the runs, and the measurements `picked`."""
    console = make_console()
    console.print(words(f"{file.path}: {name}"))
    console.print(words(", ".join(f"{k} {v}" for k, v in sorted(file.key.items()))))
    for run in baseline.runs:
        others = ", ".join(f"{k} {v}" for k, v in sorted(run.others.items()))
        commit = f", commit {run.commit[:12]}" if run.commit else ""
        console.print(words(f"  run {run.number}: {run.at}{commit}; {others}"))
    console.print()
    for test, own in picked:
        entry = baseline.entries[(test, own)]
        console.print(words(f"{test} [{own}]" if own else test))
        emit(console, _table(entry))


def _table(entry: Entry) -> Any:
    shown = table("metric", "value", "between runs", "runs")
    for metric, sampled in sorted(entry.sampled.items()):
        values = [s.value for s in sampled]
        unit = _UNITS.get(metric, "")
        spread = f"{show(min(values), unit)} to {show(max(values), unit)}" if values[1:] else "-"
        middle = show(median(values), unit)
        shown.add_row(words(metric), words(middle), words(spread), words(len(values)))
    for metric, since in sorted(entry.counts.items()):
        unit = _UNITS.get(metric, "")
        last = since[-1]
        earlier = ", ".join(f"{_count(c, unit)} since run {c.run}" for c in since[:-1])
        runs = sum(1 for run in entry.runs if run >= last.run)
        shown.add_row(words(metric), words(_count(last, unit)), words(earlier or "-"), words(runs))
    return shown


def _count(count: CountSince, unit: str) -> str:
    if count.exact:
        return f"{show(count.high, unit)} exactly"
    if count.low == count.high:
        return f"{show(count.high, unit)} (not repeated)"
    return f"{show(count.low, unit)} to {show(count.high, unit)}"


def shown_json(
    file: EnvironmentFile, name: str, baseline: Baseline, picked: Sequence[Name]
) -> dict[str, Any]:
    """The same as plain JSON types."""
    return {
        "file": str(file.path),
        "environment": dict(file.key),
        "name": name,
        "runs": [
            {"run": r.number, "at": r.at, "commit": r.commit, "others": dict(r.others)}
            for r in baseline.runs
        ],
        "measurements": [_entry_json(n, baseline.entries[n]) for n in picked],
    }


def _entry_json(name: Name, entry: Entry) -> dict[str, Any]:
    return {
        "test": name[0],
        "name": name[1],
        "runs": list(entry.runs),
        "conditions": dict(entry.conditions),
        "counts": {
            metric: [
                {"since_run": c.run, "low": c.low, "high": c.high, "exact": c.exact} for c in since
            ]
            for metric, since in entry.counts.items()
        },
        "sampled": {
            metric: [
                {"run": s.run, "value": s.value, "best_tenth": s.best_tenth, "n": s.n}
                for s in sampled
            ]
            for metric, sampled in entry.sampled.items()
        },
        "disturbed": {str(run): text for run, text in entry.disturbed.items()},
    }
