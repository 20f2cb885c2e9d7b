"""The columns of a results table: which metrics, under which titles, in which words.

The terminal and the markdown report show the same cells; titles are those of the metric table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuperf_analyzers.display import harmless, number, show, show_interval
from gpuperf_analyzers.failure_text import together
from gpuperf_analyzers.metrics import BUILTIN

Record = Mapping[str, Any]

_METRICS = {metric.name: metric for metric in BUILTIN}
_SHOWN = (
    "step_time",
    "throughput",
    "tflops",
    "bandwidth",
    "speedup",
    "overlap",
    "exposed_comm",
    "idle",
    "kernel_launches",
    "host_syncs",
    "peak_memory",
)
_ALWAYS = frozenset({"step_time"})
EXPENDABLE = tuple(_METRICS[name].title for name in ("kernel_launches", "host_syncs", "throughput"))
"""Titles of the columns that may go where there is no room for all, the first one first."""

LAST_TO_GO = tuple(
    _METRICS[name].title for name in ("bandwidth", "exposed_comm", "speedup", "overlap", "tflops")
)
"""Titles of those that go, one after the other, where that was not enough."""

_SHARES = ("mfu", "hfu")
SOFT_VERDICTS = ("AMBIGUOUS", "UNMEASURED", "NO-BASELINE", "INCOMPARABLE")


@dataclass(frozen=True, slots=True)
class Cell:
    """What one field shows: the value, and under it what qualifies it (interval, share of peak)."""

    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One result: name, verdict, a cell a column, and the numbers of its notes."""

    test: str
    verdict: str
    cells: tuple[Cell, ...]
    notes: tuple[int, ...]
    picture: str = ""
    """Samples and the step's split in letters; only a terminal's table has it."""


@dataclass(frozen=True, slots=True)
class Table:
    """Titles, rows and numbered notes of all results."""

    titles: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def results_table(records: Sequence[Record]) -> Table:
    """All results as text; a column that no result has a value for is left out."""
    shown = [
        name
        for name in _SHOWN
        if name in _ALWAYS or any(_value(r, name) is not None for r in records)
    ]
    notes: dict[str, int] = {}
    rows = tuple(
        Row(
            test=test_name(record),
            verdict=str(record.get("verdict") or ""),
            cells=tuple(_cell(record, name) for name in shown),
            notes=tuple(notes.setdefault(n, len(notes) + 1) for n in notes_of(record)),
        )
        for record in records
    )
    return Table(tuple(_METRICS[name].title for name in shown), rows, tuple(notes))


def without(table: Table, title: str) -> Table:
    """`table` less the column of that title."""
    kept = [index for index, name in enumerate(table.titles) if name != title]
    rows = (replace(row, cells=tuple(row.cells[index] for index in kept)) for row in table.rows)
    return replace(table, titles=tuple(table.titles[index] for index in kept), rows=tuple(rows))


def test_name(record: Record) -> str:
    """Node id without the folders, and the measurement's own name where it has one."""
    node = str(record.get("test", ""))
    path, separator, rest = node.partition("::")
    short = path.rsplit("/", 1)[-1] + separator + rest
    name = record.get("name")
    return harmless(f"{short} [{name}]" if name else short, 200)


def on_cpu(record: Record) -> bool:
    """Whether the result was measured on a CPU, where some counts are of something else."""
    return record.get("device_type") == "cpu"


def notes_of(record: Record) -> list[str]:
    """What a reader must know beside the numbers: soft verdicts, conditions, quality findings."""
    texts = [
        f"{j['verdict']}: {j.get('text') or j['metric']}: {j['reason']}"
        for j in together(record.get("limits") or ())
        if j["verdict"] not in {"PASS", "FAIL"} and j.get("reason")
    ]
    texts.extend(str(note) for note in record.get("notes") or ())
    texts.extend(finding_text(finding) for finding in record.get("findings") or ())
    return [harmless(text, 300) for text in dict.fromkeys(texts)]


def finding_text(finding: Mapping[str, Any]) -> str:
    """One quality finding in words: where, what, how many."""
    at = f"{finding['at']}: " if finding.get("at") else ""
    return f"{at}{finding['message']} ({finding['code']})"


def soft(records: Iterable[Record]) -> list[Record]:
    """The results that neither passed nor failed."""
    return [r for r in records if r.get("verdict") in SOFT_VERDICTS]


def _entry(record: Record, metric: str) -> Mapping[str, Any]:
    found = (record.get("values") or {}).get(metric)
    return found if isinstance(found, Mapping) else {}


def _value(record: Record, metric: str) -> float | None:
    value = _entry(record, metric).get("value")
    if metric == "exposed_comm" and not _entry(record, "comm_time").get("value"):
        return None  # nothing to expose: 0 would read as well hidden
    return None if value is None else float(value)


def _cell(record: Record, metric: str) -> Cell:
    value = _value(record, metric)
    if value is None:
        return Cell("-")
    unit = _METRICS[metric].unit
    if metric == "tflops":
        return Cell(number(value), _share_of_peak(record))
    if metric == "throughput":
        # The source begins with what was declared: items or tokens.
        counted = str(_entry(record, metric).get("source") or "items").partition(",")[0]
        return Cell(show(value, unit).replace("items", harmless(counted, 20)))
    interval = _entry(record, metric).get("interval")
    detail = show_interval(value, interval, unit) if interval and metric == "step_time" else ""
    return Cell(show(value, unit), detail)


def _share_of_peak(record: Record) -> str:
    for name in _SHARES:
        share = _value(record, name)
        if share is not None:
            return f"{show(share, 'fraction')} peak"
    return ""
