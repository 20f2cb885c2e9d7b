"""The ranks side by side: a row each, then mean, spread and the worst by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuperf_analyzers.set_analysis import rank_labels
from pytest_gpuperf.cli.console import emit, table, words
from pytest_gpuperf.cli.views.values import value_words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.metrics import Metric
    from gpuperf_analyzers.set_analysis import SetAnalysis

_TIMES = (
    "window", "step_time", "busy", "idle", "compute_time", "comm_time", "exposed_comm", "overlap",
)  # fmt: skip
_OTHERS = (
    "tflops", "mfu", "kernel_launches", "host_syncs", "host_to_device", "collectives",
    "collective_bytes", "busbw", "peak_memory", "peak_memory_growth", "throughput",
)  # fmt: skip
_MOST_COLUMNS = 8


def print_ranks(console: Console, found: SetAnalysis) -> None:
    """The table of times and the table of the rest."""
    for group in (_TIMES, _OTHERS):
        shown = [name for name in group if name in found.spread][:_MOST_COLUMNS]
        if shown:
            _print_group(console, found, shown)


def _print_group(console: Console, found: SetAnalysis, names: Sequence[str]) -> None:
    metrics = [found.metrics[name] for name in names]
    shown = table("", *(metric.title for metric in metrics), numbers="rest")
    for column in shown.columns[1:]:
        column.no_wrap = False
    for label, rank in zip(rank_labels(found.ranks), found.ranks, strict=True):
        values = [rank.values[name].value for name in names]
        cells = [_cell(v, m) for v, m in zip(values, metrics, strict=True)]
        shown.add_row(words(label), *map(words, cells))
    shown.add_section()
    spreads = [found.spread[name] for name in names]
    rows = {
        "mean": [_cell(s.mean, m) for s, m in zip(spreads, metrics, strict=True)],
        "lowest": [_cell(s.lowest, m) for s, m in zip(spreads, metrics, strict=True)],
        "highest": [_cell(s.highest, m) for s, m in zip(spreads, metrics, strict=True)],
        "worst": [s.worst_at for s in spreads],
    }
    for title, cells in rows.items():
        shown.add_row(words(title), *map(words, cells))
    emit(console, shown)


def _cell(value: float | None, metric: Metric) -> str:
    return "-" if value is None else value_words(value, metric)
