"""A sweep on the screen: a row a point, and heat maps of what was measured."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import counted, show, show_interval
from pytest_gpuperf.cli.console import PIPED_WIDTH, emit, make_console, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from pytest_gpuperf.sweep.maps import HeatMap
    from pytest_gpuperf.sweep.points import PointResult
    from pytest_gpuperf.sweep.result import Outcome

_MOST_ROWS = 200
_MOST_MAPS = 12
_NAME_WIDTH = 20
_MOST_REASONS = 20
_MOST_CONDITIONS = 8
_SHADES = ("on grey15", "on blue", "on dark_green", "on green4", "on green3")
_TITLES = {
    "step_time": "step time",
    "throughput": "throughput",
    "tflops": "TFLOPS",
    "mfu": "MFU",
    "peak_memory": "peak memory",
}


def print_sweep(outcome: Outcome, heat: tuple[str, ...]) -> None:
    """The sweep to the standard output."""
    _print(make_console(), outcome, heat)


def as_text(outcome: Outcome, heat: tuple[str, ...]) -> str:
    """The sweep as plain text."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(file=file, width=max(PIPED_WIDTH, 140), highlight=False, markup=False,
                      emoji=False, no_color=True)  # fmt: skip
    _print(console, outcome, heat)
    return file.getvalue()


def _print(console: Console, outcome: Outcome, heat: tuple[str, ...]) -> None:
    from pytest_gpuperf.sweep.result import verdict

    emit(console, words(f"{outcome.step}: {outcome.grid.words()}", "bold"))
    _points(console, outcome)
    _maps(console, outcome, heat)
    emit(console, words(verdict(outcome), "bold"))
    counts = ", ".join(f"{n} {status}" for status, n in sorted(outcome.counts().items()))
    left = len(outcome.grid) - len(outcome.results)
    emit(console, words((counts or "no point is done") + (f", {left} left" if left else "")))
    for line in (*_absent(outcome), *outcome.notes(), *_conditions(outcome)):
        emit(console, words(line))


def _points(console: Console, outcome: Outcome) -> None:
    """A row a point, and below them why some have no numbers."""
    from pytest_gpuperf.sweep.grid import point_words

    metrics = [m for m in _TITLES if any(r.number(m) is not None for r in outcome.results)]
    shown = table(*outcome.grid.axes, *(t for m in metrics for t in _heads(m)), "",
                  numbers=0)  # fmt: skip
    for column, name in zip(shown.columns, outcome.grid.axes, strict=False):
        column.min_width = min(len(name), _NAME_WIDTH)
    for column in shown.columns[len(outcome.grid.axes) : -1]:
        column.justify, column.no_wrap = "right", True
    for result in outcome.results[:_MOST_ROWS]:
        shown.add_row(*_row(result, metrics))
    emit(console, shown)
    failed = [r for r in outcome.results if r.detail]
    for result in failed[:_MOST_REASONS]:
        emit(console, words(f"{point_words(result.values)}: {result.status}: {result.detail}"))
    if len(failed) > _MOST_REASONS:
        emit(console, words(f"and {len(failed) - _MOST_REASONS} more without numbers"))
    if failed:
        console.print()
    if len(outcome.results) > _MOST_ROWS:
        emit(console, words(f"the first {_MOST_ROWS} of {len(outcome.results):,}; all in the JSON"))


def _heads(metric: str) -> tuple[str, ...]:
    return (_TITLES[metric], "95%") if metric == "step_time" else (_TITLES[metric],)


def _row(result: PointResult, metrics: list[str]) -> list[Any]:
    from pytest_gpuperf.sweep.grid import setting_words

    cells: list[Any] = [words(setting_words(v)) for v in result.values.values()]
    for metric in metrics:
        value = result.number(metric)
        unit = result.metrics.get(metric, {}).get("unit", "")
        cells.append(words("–" if value is None else show(value, unit)))
        if metric == "step_time":
            bounds = result.metrics.get(metric, {}).get("interval")
            told = "–" if value is None or bounds is None else show_interval(value, bounds, unit)
            cells.append(words(told))
    cells.append(words(result.status if result.detail else "", "red"))
    return cells


def _maps(console: Console, outcome: Outcome, heat: tuple[str, ...]) -> None:
    from pytest_gpuperf.sweep.maps import heat_axes, heat_maps, present

    axes = heat_axes(outcome, heat)
    if axes is None:
        return
    maps = [one for metric in present(outcome) for one in heat_maps(outcome, metric, axes)]
    for one in maps[:_MOST_MAPS]:
        _map(console, one)
    if len(maps) > _MOST_MAPS:
        emit(console, words(f"{_MOST_MAPS} of {len(maps)} heat maps: --heat chooses the axes"))


def _map(console: Console, one: HeatMap) -> None:
    from pytest_gpuperf.sweep.maps import labels

    title = _TITLES[one.metric] + (f", {one.fixed}" if one.fixed else "")
    shown = table(words(f"{one.rows[0]} \\ {one.columns[0]}").plain, *labels(one.columns[1]),
                  numbers="rest", title=title)  # fmt: skip
    for label, row in zip(labels(one.rows[1]), one.cells, strict=True):
        cells = []
        for cell in row:
            shade = "red"
            if cell.share is not None:
                shade = _SHADES[min(int(cell.share * len(_SHADES)), len(_SHADES) - 1)]
            cells.append(words(cell.text, "dim" if cell.text == "–" else shade))
        shown.add_row(words(label), *cells)
    emit(console, shown)


def _conditions(outcome: Outcome) -> list[str]:
    """The conditions of points, and how many have each; figures in them are of the first."""
    points: dict[str, list[str]] = {}
    for result in outcome.results:
        for kind, note in {re.sub(r"[\d.,]+", "#", n): n for n in result.notes}.items():
            points.setdefault(kind, []).append(note)
    return [
        f"{len(notes)} of {counted(len(outcome.results), 'point')}: {notes[0]}"
        for notes in list(points.values())[:_MOST_CONDITIONS]
    ]


def _absent(outcome: Outcome) -> list[str]:
    """Why metrics that the table is about are not in it, once each."""
    reasons: dict[str, None] = {}
    for result in outcome.results:
        for name in ("step_time", "mfu", "peak_memory"):
            reason = result.metrics.get(name, {}).get("absent_reason")
            if reason:
                reasons[f"{_TITLES[name]} is absent: {reason}"] = None
    return list(reasons)[:8]
