"""The history as a picture: a panel a series, its changes marked, by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless, scale

if TYPE_CHECKING:
    from pytest_gpuperf.baselines.history_levels import Told

MOST_PANELS = 24
_KINDS = (".svg", ".png", ".pdf")


class NoPlotError(Exception):
    """Nothing can be drawn: one line."""


def draw(told: Sequence[Told], out: Path, unit_of: Callable[[str], str]) -> None:
    """Draw the series with a change first, at most :data:`MOST_PANELS`, to `out`.

    Raises
    ------
    NoPlotError
        matplotlib is not here, or `out` is of no kind that it draws.
    OSError
        `out` cannot be written.
    """
    if out.suffix.lower() not in _KINDS:
        raise NoPlotError(f"{out}: a plot is written as {', '.join(_KINDS)}")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NoPlotError("a plot takes matplotlib: pip install 'pytest-gpuperf[plot]'") from None
    order = {"step_time": 0}
    picked = sorted(told, key=lambda t: (not t.changes, order.get(t.name[3], 1), t.name))
    picked = picked[:MOST_PANELS]
    figure = Figure(figsize=(9, 2.2 * len(picked)), layout="constrained")
    for each, axes in zip(picked, figure.subplots(len(picked), squeeze=False)[:, 0], strict=True):
        _, test, name, metric = each.name
        values = [line.value for line in each.lines]
        factor, symbol = scale(max(map(abs, values)), unit_of(metric))
        axes.plot([v / factor for v in values], marker="o", markersize=3, linewidth=1)
        for change in each.changes:
            axes.axvline(change.index - 0.5, color="crimson", linestyle="--", linewidth=1)
            commit = each.lines[change.index].commit[:8]
            axes.annotate(
                commit or "change", (change.index - 0.5, 1), xycoords=("data", "axes fraction"),
                fontsize=7, color="crimson", va="bottom",
            )  # fmt: skip
        title = f"{test} [{name}]" if name else test
        # A dollar sign would begin mathematics.
        axes.set_title(harmless(title, 100).replace("$", r"\$"), fontsize=9, loc="left", pad=12)
        axes.set_ylabel(f"{metric} [{symbol}]" if symbol else metric, fontsize=8)
        axes.set_xlabel("run", fontsize=8)
        axes.tick_params(labelsize=7)
    figure.savefig(out)
