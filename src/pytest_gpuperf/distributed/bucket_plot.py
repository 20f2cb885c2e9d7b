"""The picture of a sweep of bucket sizes: step time and overlap over the size, with intervals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import counted
from gpuperf_analyzers.metrics import Value

if TYPE_CHECKING:
    from pytest_gpuperf.distributed.bucket_sweep import BucketSweep

FORMATS = (".svg", ".png", ".pdf")
_MISSING = "the plot needs matplotlib: pip install 'pytest-gpuperf[plot]'"


def plot_buckets(sweep: BucketSweep, path: Path | str) -> Path:
    """Draw `sweep` to `path`, whose ending says the format; it is there whole or not at all.

    Bars are 95% intervals; a point without one has fewer than six samples. A value that is absent
    leaves a gap.

    Raises
    ------
    ValueError
        Another format, nothing to draw, or matplotlib is not installed.
    OSError
        The file cannot be written.
    """
    target = check_plot_path(path)
    if not any(row.values["step_time"].value is not None for row in sweep.rows):
        raise ValueError("there is nothing to draw: no step time was measured")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 6.0), layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: it would choose a backend for the whole process
    times, shares = figure.subplots(2, 1, sharex=True)
    _points(times, sweep, "step_time", 1e-3, "step time, profiler off")
    _points(times, sweep, "exposed_comm", 1e-3, "exposed communication, profiled steps")
    _points(shares, sweep, "overlap", 100.0, "overlap")
    times.set_ylabel("ms")
    times.set_ylim(bottom=0)
    times.legend()
    shares.set_ylabel("overlap, %")
    shares.set_ylim(-2, 102)
    shares.set_xlabel("bucket_cap_mb, MiB (buckets a step)")
    shares.set_xscale("log")
    shares.set_xticks(
        [row.bucket_cap_mb for row in sweep.rows],
        [f"{row.bucket_cap_mb:g}\n({row.buckets})" for row in sweep.rows],
    )
    shares.minorticks_off()
    for axes in (times, shares):
        axes.grid(alpha=0.3)
    figure.suptitle(f"{counted(sweep.world_size, 'rank')}, {sweep.backend}, {sweep.device_name}")
    partial = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        figure.savefig(partial, dpi=150)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def check_plot_path(path: Path | str) -> Path:
    """`path`, where a plot can be drawn to it; to be asked before minutes are measured.

    Raises
    ------
    ValueError
        Another format than svg, png or pdf; no such folder; matplotlib is not installed.
    """
    from importlib.util import find_spec

    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise ValueError(f"{target}: a plot's name ends in {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise ValueError(f"{target}: there is no folder {target.parent}")
    if find_spec("matplotlib") is None:
        raise ValueError(_MISSING)
    return target


def _points(axes: Any, sweep: BucketSweep, metric: str, factor: float, label: str) -> None:
    """A line through the values of a metric, with its intervals as bars."""
    shown = [(row.bucket_cap_mb, row.values[metric]) for row in sweep.rows]
    points = [(x, v.value * factor, *_bars(v)) for x, v in shown if v.value is not None]
    if not points:
        return
    x, y, below, above = zip(*points, strict=True)
    errors = [[b * factor for b in below], [a * factor for a in above]]
    axes.errorbar(x, y, yerr=errors, marker="o", capsize=3, label=label)


def _bars(value: Value) -> tuple[float, float]:
    """How far the interval reaches below and above the value."""
    if value.interval is None or value.value is None:
        return 0.0, 0.0
    low, high = value.interval
    return max(value.value - low, 0.0), max(high - value.value, 0.0)
