"""The ranks side by side: a row each, then mean, spread and the worst by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuperf_analyzers.set_analysis import rank_labels
from pytest_gpuperf.cli.console import emit, table, words
from pytest_gpuperf.cli.views.values import value_words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.set_analysis import SetAnalysis

_SHOWN = (
    "window", "step_time", "busy", "idle", "compute_time", "comm_time", "exposed_comm", "overlap",
    "tflops", "mfu", "kernel_launches", "host_syncs", "host_to_device", "collectives",
    "collective_bytes", "busbw", "peak_memory", "peak_memory_growth", "throughput",
)  # fmt: skip
_ROWS = ("mean", "lowest", "highest", "worst")


@dataclass(frozen=True, slots=True)
class _Column:
    """A metric's title, a cell a rank, and the cells of the rows under them."""

    title: str
    cells: tuple[str, ...]
    under: tuple[str, ...]

    @property
    def width(self) -> int:
        """Columns that it takes; a title breaks between words only."""
        return max(len(text) for text in (*self.title.split(), *self.cells, *self.under))


def print_ranks(console: Console, found: SetAnalysis) -> None:
    """As many tables as the metrics that some rank has need at this width."""
    labels = (*rank_labels(found.ranks), *_ROWS)
    room = console.width - max(len(label) for label in labels)  # a gap is two columns wide
    group: list[_Column] = []
    for column in (_column(found, name) for name in _SHOWN if name in found.spread):
        if group and sum(c.width + 2 for c in (*group, column)) > room:
            _print_group(console, found, group)
            group = []
        group.append(column)
    if group:
        _print_group(console, found, group)


def _column(found: SetAnalysis, name: str) -> _Column:
    metric, spread = found.metrics[name], found.spread[name]
    values = (rank.values[name].value for rank in found.ranks)
    numbers = (spread.mean, spread.lowest, spread.highest)
    under = (*(value_words(value, metric) for value in numbers), spread.worst_at)
    cells = tuple("-" if value is None else value_words(value, metric) for value in values)
    return _Column(metric.title, cells, under)


def _print_group(console: Console, found: SetAnalysis, group: Sequence[_Column]) -> None:
    shown = table("", *(column.title for column in group), numbers="rest")
    for made, column in zip(shown.columns[1:], group, strict=True):
        made.no_wrap = False  # titles may break
        made.width = column.width
    for index, label in enumerate(rank_labels(found.ranks)):
        shown.add_row(words(label), *(words(column.cells[index]) for column in group))
    shown.add_section()
    for index, title in enumerate(_ROWS):
        shown.add_row(words(title), *(words(column.under[index]) for column in group))
    emit(console, shown)
