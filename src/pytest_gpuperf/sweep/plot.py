"""The heat maps of a sweep as one picture: a row a metric, a column a setting of the other axes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pytest_gpuperf.distributed.bucket_plot import check_plot_path
from pytest_gpuperf.sweep.grid import GridError
from pytest_gpuperf.sweep.maps import HeatMap, heat_axes, heat_maps, labels, present
from pytest_gpuperf.sweep.result import Outcome

__all__ = ["check_plot_path", "plot_sweep"]

_MOST_COLUMNS = 6
_NAMES = {
    "step_time": "step time",
    "throughput": "throughput",
    "mfu": "MFU",
    "peak_memory": "peak memory",
}


def plot_sweep(outcome: Outcome, path: Path | str, axes: tuple[str, ...] = ()) -> Path:
    """Draw `outcome` to `path` (.svg, .png, .pdf); it is there whole or not at all.

    Light is good. A point without a number says why in its cell.

    Raises
    ------
    ValueError
        Another format, nothing to draw, or matplotlib is not installed.
    OSError
        The file cannot be written.
    """
    target = check_plot_path(path)
    chosen, metrics = heat_axes(outcome, axes), present(outcome)
    if chosen is None or not metrics:
        raise GridError("there is no heat map to draw: it takes two axes and a measured point")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = [list(heat_maps(outcome, metric, chosen)) for metric in metrics]
    columns = min(len(drawn[0]), _MOST_COLUMNS)
    wide = max(2.4, 0.85 * len(drawn[0][0].columns[1]))
    high = max(1.8, 0.45 * len(drawn[0][0].rows[1]) + 0.9)
    figure = Figure(figsize=(wide * columns + 1.2, high * len(metrics) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: it would choose a backend for the whole process
    for row, maps in zip(figure.subplots(len(metrics), columns, squeeze=False), drawn, strict=True):
        for place, one in zip(row, maps[:columns], strict=True):
            _draw(place, one)
    cut = len(drawn[0]) - columns
    title = outcome.step + (f" (the first {columns} of {columns + cut} settings)" if cut else "")
    figure.suptitle(_text(title), fontsize=9)
    partial = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        figure.savefig(partial, dpi=150)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _draw(place: Any, one: HeatMap) -> None:
    shades = [[float("nan") if c.share is None else c.share for c in row] for row in one.cells]
    place.imshow(shades, vmin=0.0, vmax=1.0, cmap="viridis", aspect="auto")
    place.set_xticks(range(len(one.columns[1])), [_text(t) for t in labels(one.columns[1])])
    place.set_yticks(range(len(one.rows[1])), [_text(t) for t in labels(one.rows[1])])
    place.set_xlabel(_text(one.columns[0]), fontsize=8)
    place.set_ylabel(_text(one.rows[0]), fontsize=8)
    place.tick_params(labelsize=7)
    name = _NAMES[one.metric]
    place.set_title(_text(f"{name}, {one.fixed}" if one.fixed else name), fontsize=8)
    for i, row in enumerate(one.cells):
        for j, cell in enumerate(row):
            dark = cell.share is not None and cell.share < 0.5
            place.text(j, i, cell.text, ha="center", va="center", fontsize=7,
                       color="white" if dark else "black")  # fmt: skip


def _text(text: str) -> str:
    # A dollar would begin a formula.
    return text.replace("$", r"\$")[:80]
