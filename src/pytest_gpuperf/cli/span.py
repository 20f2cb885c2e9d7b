"""``gpuperf analyze --span NAME``: the numbers of one annotation instead of the steps'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import counted
from pytest_gpuperf.cli.inputs import USAGE, complain, status_of
from pytest_gpuperf.cli.json_output import print_json

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.spans import SpanValues
    from gpuperf_analyzers.trace.model import Trace, TraceSet

_SHOWN_NAMES = 8


def report_span(traces: TraceSet, name: str, *, as_json: bool) -> int:
    """Print what the traces say of the spans `name`: 0, or 2 where no trace has one."""
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.spans import analyze_span

    config = load_config()
    found = [(trace, analyze_span(trace, config, name)) for trace in traces.traces]
    if not any(devices for _, devices in found):
        complain(f"no trace has a span {name!r}{_others(traces, name)}")
        return USAGE
    if as_json:
        document = {"span": name, "ranks": [_rank_json(t, d, config) for t, d in found]}
        print_json(document)
    else:
        _print(name, found, config)
    return status_of(traces.failed)


def _others(traces: TraceSet, name: str) -> str:
    """The annotations that there are, the nearest first where one is near."""
    import numpy as np

    from gpuperf_analyzers.limits import nearest
    from gpuperf_analyzers.trace.classify import STEP_NAME
    from gpuperf_analyzers.trace.model import Category

    names: dict[str, None] = {}
    for trace in traces.traces:
        for index in np.unique(trace.events.name[trace.rows(Category.USER_ANNOTATION)]).tolist():
            names[trace.strings[index]] = None
    known = [n for n in names if not STEP_NAME.fullmatch(n)]
    if not known:
        return ": there are no annotations besides the steps"
    return nearest(name, known) or f"; there are {', '.join(known[:_SHOWN_NAMES])}"


def _rank_json(trace: Trace, found: tuple[SpanValues, ...], config: Config) -> dict[str, Any]:
    from gpuperf_analyzers.combining import values_json

    return {
        "path": trace.path,
        "rank": trace.rank,
        "devices": [
            {
                "device": d.device,
                "name": d.device_name,
                "passages": [
                    {"start_us": p.start / 1e3, "duration_us": p.step_time / 1e3}
                    for p in d.passages
                ],
                "values": values_json(d.values, config.metrics),
            }
            for d in found
        ],
    }


def _print(name: str, found: list[tuple[Trace, tuple[SpanValues, ...]]], config: Config) -> None:
    """A table of each rank's and device's values."""
    from gpuperf_analyzers.display import show_interval
    from pytest_gpuperf.cli.console import emit, make_console, table, words
    from pytest_gpuperf.cli.views.values import value_words

    console = make_console()
    for trace, devices in found:
        for device in devices:
            where = device.device_name or str(device.device)
            rank = "" if trace.rank is None else f"rank {trace.rank}, "
            text = f"{name}: {counted(len(device.passages), 'passage')}, {rank}{where}"
            console.print(words(text, "bold"))
            shown = table("metric", "value", "95% interval", "source", numbers="rest")
            shown.columns[-1].justify = "left"
            for metric in config.metrics.values():
                value = device.values[metric.name]
                if value.value is None:
                    continue
                bounds = value.interval
                shown.add_row(
                    words("length" if metric.name == "step_time" else metric.title),
                    words(value_words(value.value, metric)),
                    words(
                        "" if bounds is None else show_interval(value.value, bounds, metric.unit)
                    ),
                    words(f"{value.at}: {value.source}" if value.at else value.source),
                )
            emit(console, shown)
            console.print()
