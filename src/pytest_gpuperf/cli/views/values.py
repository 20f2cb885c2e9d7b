"""Every metric that has a value and is not in the timeline's tree; and why the others have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless, number, show, show_interval
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.metrics import Metric, Value

_IN_THE_TREE = frozenset(
    {
        "window", "busy_time", "idle_time", "compute_time", "comm_time", "memory_time",
        "exposed_comm", "overlapped_comm", "exposed_memory", "idle_host_bound",
        "idle_launch_latency", "idle_dependency", "idle_unknown",
    }
)  # fmt: skip
_RATIOS = frozenset({"busy", "idle", "overlap"})
"""In the tree too; repeated only as ratios over steps, with an interval."""
_NO_STEPS = ": the trace has no ProfilerStep annotation"
"""Said once, in the header."""


def print_values(
    console: Console,
    values: Mapping[str, Value],
    metrics: Mapping[str, Metric],
    invalid: Mapping[str, str],
) -> None:
    """Metric, value, interval, where it belongs, how it was got; then what is absent and why.

    A value that a finding makes invalid is marked: it is shown to look into, not to judge by.
    """
    marked = False
    shown = table("metric", "value", "95% interval", "n", "source")
    for index in (1, 2, 3):
        shown.columns[index].justify = "right"
    absent: dict[str, list[str]] = {}
    for name, metric in metrics.items():
        value = values.get(name)
        if value is None or name in _IN_THE_TREE or (name in _RATIOS and value.interval is None):
            continue
        if value.value is None:
            absent.setdefault(value.absent_reason or "", []).append(metric.title)
            continue
        source = f"{value.at}: {value.source}" if value.at else value.source
        mark = "! " if name in invalid else ""
        marked = marked or bool(mark)
        bounds = value.interval
        shown.add_row(
            words(metric.title),
            words(mark + value_words(value.value, metric)),
            words("" if bounds is None else show_interval(value.value, bounds, metric.unit)),
            words(value.n if value.n > 1 else ""),
            words(source.replace(_NO_STEPS, "")),
        )
    if shown.row_count:
        emit(console, shown)
    if marked:
        emit(console, words("! INVALID by a finding above: not to be judged by", "yellow"))
    for reason, titles in absent.items():
        emit(console, words(f"no {', '.join(titles)}: {harmless(reason, 240)}", "dim", 600))


def value_words(value: float, metric: Metric) -> str:
    """The value with its unit; TFLOPS without, since the title says it."""
    return number(value) if metric.title == metric.unit == "TFLOPS" else show(value, metric.unit)
