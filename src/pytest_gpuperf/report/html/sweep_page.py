"""A sweep: the best point, a heat map of each metric over two axes, what failed and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from gpuperf_analyzers.display import show, show_interval
from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    Section,
    Table,
    Text,
    number_cell,
    text_cell,
    words,
)
from pytest_gpuperf.report.html.heat import heat_map

Document = Mapping[str, Any]
_METRICS = {m.name: m for m in BUILTIN}
_MAPPED = ("step_time", "throughput", "mfu", "peak_memory")
_MOST_MAPS = 8


def sweep_sections(document: Document) -> Sequence[Section]:
    """What was found, the maps, every point."""
    results: Sequence[Document] = document["results"]
    axes: Mapping[str, Sequence[Any]] = document["axes"]
    blocks: list[Block] = [Text((_said(document),), "summary")]
    notes = [words(n, 300) for n in document.get("notes") or ()]
    if document.get("stopped"):
        notes.append(f"The sweep was ended early: {words(document['stopped'], 200)}.")
    if notes:
        blocks.append(Text(tuple(notes), "note"))
    maps = [m for metric in _MAPPED for m in _maps(metric, axes, results)]
    blocks += maps[:_MOST_MAPS]
    if len(maps) > _MOST_MAPS:
        left = len(maps) - _MOST_MAPS
        blocks.append(Text((f"{left} more maps are left out: the table has every point.",), "note"))
    blocks.append(_table(axes, results))
    return [Section("Sweep", tuple(blocks))]


def _point(values: Mapping[str, Any]) -> str:
    return words(" ".join(f"{name}={_word(value)}" for name, value in values.items()), 160)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else words(value, 40)


def _said(document: Document) -> str:
    counts = ", ".join(f"{n} {words(how, 20)}" for how, n in (document.get("counts") or {}).items())
    done = f"{document.get('done')} of {document.get('points')} points: {counts or 'none'}."
    best = document.get("best")
    if not best:
        return f"{done} No point was measured."
    near = [
        _point(r["values"])
        for r in document["results"]
        if r["index"] in (document.get("not_apart_from_best") or ())
    ]
    what = "highest throughput" if document.get("judged_by") == "throughput" else "shortest step"
    told = f" Not told apart from it: {'; '.join(near[:4])}." if near else ""
    return f"{done} The {what} is at {_point(best['values'])}.{told}"


def _maps(
    metric: str, axes: Mapping[str, Sequence[Any]], results: Sequence[Document]
) -> list[Drawing]:
    """A map over the two axes of most values for each setting of the others; none of one axis."""
    several = sorted((name for name in axes if len(axes[name]) > 1), key=lambda n: -len(axes[n]))
    if len(several) < 2:
        return []
    row, column = sorted(several[:2], key=list(axes).index)
    others = [name for name in axes if name not in (row, column)]
    # As text: 1, 1.0 and true are equal as keys.
    known = {json.dumps([r["values"].get(n) for n in axes]): r for r in results}
    made = []
    for fixed in product(*(axes[name] for name in others)):
        setting = dict(zip(others, fixed, strict=True))
        cells = {}
        for a, b in product(axes[row], axes[column]):
            values = {**setting, row: a, column: b}
            result = known.get(json.dumps([values[n] for n in axes]))
            value = None if result is None else _number(result, metric)
            if value is not None:
                unit = _METRICS[metric].unit
                told = f"{_point(values)}: {show(value, unit)}"
                cells[_word(a), _word(b)] = (value, told)
        if cells:
            made.append(_map(metric, axes, row, column, setting, cells))
    return made


def _map(
    metric: str,
    axes: Mapping[str, Sequence[Any]],
    row: str,
    column: str,
    setting: Mapping[str, Any],
    cells: Mapping[tuple[str, str], tuple[float, str]],
) -> Drawing:
    at = f", {_point(setting)}" if setting else ""
    return heat_map(
        f"{_METRICS[metric].title}{at}",
        [_word(v) for v in axes[row]],
        [_word(v) for v in axes[column]],
        cells,
        x_label=words(column, 40),
        y_label=words(row, 40),
        unit=_METRICS[metric].unit,
        description=f"{len(cells)} of {len(axes[row]) * len(axes[column])} points have a value; "
        f"darker is more, and {_METRICS[metric].better} is better. An empty cell was not measured.",
    )


def _number(result: Document, metric: str) -> float | None:
    found = ((result.get("metrics") or {}).get(metric) or {}).get("value")
    return None if found is None else float(found)


def _table(axes: Mapping[str, Sequence[Any]], results: Sequence[Document]) -> Table:
    used = [m for m in _METRICS if any(_number(r, m) is not None for r in results)]
    rows = tuple(
        (
            *(_setting(r["values"].get(name)) for name in axes),
            text_cell(r.get("status"), 20),
            *(_value(r, metric) for metric in used),
            text_cell(r.get("detail"), 300),
        )
        for r in results
    )
    columns = (
        *(Column(words(name, 40)) for name in axes),
        Column("ended", text=True),
        *(Column(_METRICS[m].title, m, _METRICS[m].unit) for m in used),
        Column("why", text=True),
    )
    return Table("Every point", columns, rows, searchable=True)


def _setting(value: Any) -> Cell:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return Cell(_word(value), number)


def _value(result: Document, metric: str) -> Cell:
    value, unit = _number(result, metric), _METRICS[metric].unit
    interval = ((result.get("metrics") or {}).get(metric) or {}).get("interval")
    detail = show_interval(value, interval, unit) if value is not None and interval else ""
    return number_cell(value, unit, detail)
