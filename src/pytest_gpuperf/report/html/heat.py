"""A heat map: a cell a pair, shaded by its value, which it says on hover and in the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuperf_analyzers.display import number
from pytest_gpuperf.report.html.blocks import Cell, Column, Drawing, Table, words
from pytest_gpuperf.report.html.svg import Scale, framed, percent, titled

_SHADES = 9


def heat_map(
    title: str,
    ys: Sequence[str],
    xs: Sequence[str],
    cells: Mapping[tuple[str, str], tuple[float, str]],
    *,
    x_label: str,
    y_label: str,
    unit: str,
    description: str,
) -> Drawing:
    """One cell for each (y, x) of `cells`: its value and what it says; others stay empty."""
    values = [value for value, _ in cells.values()]
    low, high = min(values), max(values)
    x, y = Scale(0, len(xs)), Scale(0, len(ys))
    shapes = []
    for i, row in enumerate(ys):
        for j, column in enumerate(xs):
            if (row, column) in cells:
                value, told = cells[row, column]
                shade = 1 + round((value - low) / (high - low) * (_SHADES - 1)) if high > low else 5
                shapes.append(
                    titled(
                        "rect",
                        words(told, 160),
                        class_=f"heat h{shade}",
                        x=percent(x(j)),
                        width=percent(1 / len(xs)),
                        y=percent((len(ys) - 1 - i) / len(ys)),
                        height=percent(1 / len(ys)),
                    )
                )
    skip_x, skip_y = max(1, -(-len(xs) // 12)), max(1, -(-len(ys) // 16))
    columns = (Column(y_label, text=True), Column(x_label, text=True), Column(unit, unit=unit))
    rows = tuple(
        (Cell(row), Cell(column), Cell(number(value), value))
        for (row, column), (value, _) in list(cells.items())[:2000]
    )
    return Drawing(
        title,
        framed(
            shapes,
            x,
            y,
            x_label=x_label,
            y_label=y_label,
            height=max(min(18 * len(ys), 460), 120),
            x_ticks=[(j + 0.5, words(xs[j], 12)) for j in range(0, len(xs), skip_x)],
            y_ticks=[(i + 0.5, words(ys[i], 12)) for i in range(0, len(ys), skip_y)],
        ),
        description,
        Table(title, columns, rows, searchable=len(rows) > 12),
        (("heat h1", f"{number(low)} {unit}"), ("heat h9", f"{number(high)} {unit}")),
    )
