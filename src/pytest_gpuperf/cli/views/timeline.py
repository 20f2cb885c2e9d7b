"""Where the time went: the window and the steps split, and the longest gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless, show, show_interval
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.timeline import Times

_PARTS = (
    ("busy", "busy_ns", "window_ns"),
    ("  compute", "compute_ns", "window_ns"),
    ("  communication", "comm_ns", "window_ns"),
    ("    overlapped", "overlapped_comm_ns", "comm_ns"),
    ("    exposed", "exposed_comm_ns", "comm_ns"),
    ("  memory ops", "memory_ns", "window_ns"),
    ("    exposed", "exposed_memory_ns", "memory_ns"),
    ("idle", "idle_ns", "window_ns"),
    ("  host-bound", "host_bound_ns", "idle_ns"),
    ("  launch latency", "launch_latency_ns", "idle_ns"),
    ("  dependency", "dependency_ns", "idle_ns"),
    ("  unknown", "unknown_ns", "idle_ns"),
)
"""Row title, field of ``Times``, and the whole that its share is of."""

_OF = {"window_ns": "", "comm_ns": " of comm", "memory_ns": " of memory", "idle_ns": " of idle"}
_FEWEST_FOR_AN_INTERVAL = 6


def print_timeline(console: Console, device: DeviceAnalysis, step: str | None) -> None:
    """The window (or step `step`) as a tree of parts, with the median step beside it.

    A single step is beside it too: its window need not be the whole one, and the paragraph on top
    speaks of steps.
    """
    timeline = device.timeline
    chosen, name = timeline.window, "whole window"
    if step not in (None, "all"):
        found = [s for s in timeline.steps if s.name.endswith(f"#{step}")]
        if not found:
            return
        chosen, name = found[0], f"step {step}"
    steps = timeline.steps if chosen is timeline.window else ()
    titles = [f"timeline, {device.label}", name, "share", *_step_titles(steps)]
    shown = table(*titles, numbers="rest")
    shown.add_row("length", *_cells(chosen, "window_ns", ""), *_step_cells(steps, "window_ns"))
    for title, field, whole in _PARTS:
        if not any(getattr(times, field) for times in (chosen, *steps)) and title.startswith(" "):
            continue
        cells = (*_cells(chosen, field, whole), *_step_cells(steps, field))
        shown.add_row(words(title), *(words(cell) for cell in cells))
    emit(console, shown)
    if step == "all":
        print_steps(console, device)


def _cells(times: Times, field: str, whole: str) -> tuple[str, str]:
    """Time, and share of the whole that it is a part of."""
    value, of = getattr(times, field), getattr(times, whole) if whole else 0
    share = show(value / of, "fraction") + _OF[whole] if of else ""
    return show(value / 1e3, "us"), share


def _step_titles(steps: Sequence[Times]) -> tuple[str, ...]:
    if not steps:
        return ()
    if len(steps) == 1:
        return (f"step {steps[0].name.partition('#')[2]}",)
    return ("median step", "95% interval" if len(steps) >= _FEWEST_FOR_AN_INTERVAL else "range")


def _step_cells(steps: Sequence[Times], field: str) -> tuple[str, ...]:
    """Median over the steps, and its interval, or the range where they are too few for one."""
    from gpuperf_analyzers.stats import median, median_interval

    if not steps:
        return ()
    samples = [getattr(step, field) / 1e3 for step in steps]
    middle = median(samples)
    if len(steps) == 1:
        return (show(middle, "us"),)
    return show(middle, "us"), show_interval(
        middle, median_interval(samples) or (min(samples), max(samples)), "us"
    )


def print_steps(console: Console, device: DeviceAnalysis) -> None:
    """A row a step."""
    titles = ("step", "step time", "busy", "compute", "comm", "exposed", "overlap", "idle")
    shown = table(*titles, numbers="rest")
    for times in device.timeline.steps:
        overlap = times.overlap
        shown.add_row(
            words(times.name.removeprefix("ProfilerStep")),
            *(
                words(show(value / 1e3, "us"))
                for value in (
                    times.window_ns,
                    times.busy_ns,
                    times.compute_ns,
                    times.comm_ns,
                    times.exposed_comm_ns,
                )
            ),
            words("-" if overlap is None else show(overlap, "fraction")),
            words(_share(times.idle_ns, times.window_ns)),
        )
    if device.timeline.steps:
        emit(console, shown)


def _share(part: int, whole: int) -> str:
    return show(part / whole, "fraction") if whole else "-"


def print_gaps(console: Console, device: DeviceAnalysis, top: int) -> None:
    """The longest gaps that make up one percent of the window or more, and the host in them."""
    timeline = device.timeline
    least = timeline.window.window_ns / 100
    gaps = [gap for gap in timeline.gaps[:top] if gap.duration >= least]
    if not gaps:
        return
    shown = table("longest idle", "length", "cause", "the host meanwhile")
    for gap in gaps:
        ran = [*gap.cpu_ops[:2], *gap.calls[:1]]
        host = ", ".join(f"{harmless(name, 48)} {show(ns / 1e3, 'us')}" for name, ns in ran)
        shown.add_row(
            words(f"at {show((gap.start - timeline.window.start_ns) / 1e3, 'us')}"),
            words(show(gap.duration / 1e3, "us")),
            words(gap.kind.replace("_", " ")),
            words(host or "no CPU op recorded"),
        )
    emit(console, shown)
