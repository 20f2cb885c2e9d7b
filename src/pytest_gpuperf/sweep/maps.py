"""The grid as heat maps: two axes each, one map for every setting of the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from gpuperf_analyzers.display import show
from pytest_gpuperf.sweep.failure import CRASH, HANG, NOT_RUN, OUT_OF_MEMORY
from pytest_gpuperf.sweep.grid import GridError, Setting, point_words, setting_words
from pytest_gpuperf.sweep.points import PointResult
from pytest_gpuperf.sweep.result import Outcome

SHOWN = ("step_time", "throughput", "mfu", "peak_memory")
MORE_IS_BETTER = frozenset({"throughput", "mfu"})
_SHORT = {OUT_OF_MEMORY: "OOM", HANG: "hang", CRASH: "crash", NOT_RUN: "not run"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One point: its value, what is written, and its place between worst (0) and best (1)."""

    value: float | None
    text: str
    share: float | None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A metric over two axes; ``fixed`` is the setting of the others in words."""

    metric: str
    rows: tuple[str, tuple[Setting, ...]]
    columns: tuple[str, tuple[Setting, ...]]
    fixed: str
    cells: tuple[tuple[Cell, ...], ...]


def heat_axes(outcome: Outcome, chosen: Sequence[str] = ()) -> tuple[str, str] | None:
    """The axes of rows and columns: `chosen`, or the two of the most values; None where only one.

    Raises
    ------
    GridError
        `chosen` are not two axes.
    """
    axes = outcome.grid.axes
    if chosen:
        if len(chosen) != 2 or len(set(chosen)) != 2 or not set(chosen) <= axes.keys():
            raise GridError(f"--heat: name two of the axes {', '.join(axes)} as ROWS,COLUMNS")
        return chosen[0], chosen[1]
    longest = sorted((name for name in axes if len(axes[name]) > 1), key=lambda n: -len(axes[n]))
    if len(longest) < 2:
        return None
    first, second = sorted(longest[:2], key=list(axes).index)
    return first, second


def heat_maps(outcome: Outcome, metric: str, axes: tuple[str, str]) -> Iterator[HeatMap]:
    """A map of `metric` for every setting of the axes that are not `axes`.

    All share one scale, so that their shades compare.
    """
    grid = outcome.grid.axes
    others = [name for name in grid if name not in axes]
    # As text: 1, 1.0 and true are equal as keys.
    known = {json.dumps(r.values): r for r in outcome.results}
    values = [v for r in outcome.results if (v := r.number(metric)) is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    for setting in product(*(grid[name] for name in others)):
        fixed = dict(zip(others, setting, strict=True))
        cells = []
        for row in grid[axes[0]]:
            line = []
            for column in grid[axes[1]]:
                point = {**fixed, axes[0]: row, axes[1]: column}
                ordered = json.dumps({name: point[name] for name in grid})
                line.append(_cell(known.get(ordered), metric, low, high))
            cells.append(tuple(line))
        yield HeatMap(
            metric, (axes[0], grid[axes[0]]), (axes[1], grid[axes[1]]), point_words(fixed),
            tuple(cells),
        )  # fmt: skip


def _cell(result: PointResult | None, metric: str, low: float, high: float) -> Cell:
    if result is None:
        return Cell(None, "–", None)
    value = result.number(metric)
    if value is None:
        return Cell(None, _SHORT.get(result.status, "–"), None)
    share = (value - low) / (high - low) if high > low else 1.0
    if metric not in MORE_IS_BETTER and high > low:
        share = 1.0 - share
    return Cell(value, show(value, result.metrics[metric]["unit"]), share)


def present(outcome: Outcome) -> list[str]:
    """The metrics of :data:`SHOWN` that some point has."""
    return [m for m in SHOWN if any(r.number(m) is not None for r in outcome.results)]


def labels(values: Sequence[Setting]) -> list[str]:
    """What stands at the rows or columns."""
    return [setting_words(value) for value in values]
