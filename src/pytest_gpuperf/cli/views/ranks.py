"""The ranks side by side: a row each, then mean, spread and the worst by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import number, short_names, show
from gpuperf_analyzers.set_analysis import rank_labels
from pytest_gpuperf.cli.console import emit, table, words
from pytest_gpuperf.cli.views.values import value_words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.matched_collectives import MatchedResult
    from gpuperf_analyzers.set_analysis import SetAnalysis

_SHOWN = (
    "window", "step_time", "busy", "idle", "compute_time", "comm_time", "exposed_comm", "overlap",
    "tflops", "mfu", "kernel_launches", "host_syncs", "host_to_device", "collectives",
    "collective_bytes", "busbw", "peak_memory", "peak_memory_growth", "throughput",
)  # fmt: skip
_ROWS = ("mean", "lowest", "highest", "worst")
_LONGEST_LABEL = 18


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
    full = rank_labels(found.ranks)
    labels = dict(zip(full, short_names(full, _LONGEST_LABEL), strict=True))
    room = console.width - max(len(label) for label in (*labels.values(), *_ROWS))
    group: list[_Column] = []
    for column in (_column(found, name, labels) for name in _SHOWN if name in found.spread):
        # A gap between columns is two wide.
        if group and sum(c.width + 2 for c in (*group, column)) > room:
            _print_group(console, labels, group)
            group = []
        group.append(column)
    if group:
        _print_group(console, labels, group)


def _column(found: SetAnalysis, name: str, labels: Mapping[str, str]) -> _Column:
    metric, spread = found.metrics[name], found.spread[name]
    values = (rank.values[name].value for rank in found.ranks)
    numbers = (spread.mean, spread.lowest, spread.highest)
    worst = labels.get(spread.worst_at, spread.worst_at)
    under = (*(value_words(value, metric) for value in numbers), worst)
    cells = tuple("-" if value is None else value_words(value, metric) for value in values)
    return _Column(metric.title, cells, under)


def _print_group(console: Console, labels: Mapping[str, str], group: Sequence[_Column]) -> None:
    shown = table("", *(column.title for column in group), numbers="rest")
    for made, column in zip(shown.columns[1:], group, strict=True):
        made.no_wrap = False  # titles may break
        made.width = column.width
    for index, label in enumerate(labels.values()):
        shown.add_row(words(label), *(words(column.cells[index]) for column in group))
    shown.add_section()
    for index, title in enumerate(_ROWS):
        shown.add_row(words(title), *(words(column.under[index]) for column in group))
    emit(console, shown)


def print_matched(console: Console, found: MatchedResult, top: int) -> None:
    """Who waited and who came last, then the collectives that took longest."""
    if found.calls:
        skewed = any(rank.skew_us for rank in found.ranks)
        titles = ["all ranks", "waited in collectives", "came last"]
        shown = table(*titles, *(["clock ahead"] if skewed else []), numbers="rest")
        for rank in found.ranks:
            cells = [
                f"rank {rank.rank}",
                show(rank.wait_us, "us"),
                f"{rank.straggler} of {len(found.calls)}",
            ]
            shown.add_row(*map(words, [*cells, show(rank.skew_us, "us")] if skewed else cells))
        emit(console, shown)
        _print_calls(console, found, top)
        for value in found.metrics():
            if value.value is not None:
                text = f"bus bandwidth {show(value.value, 'GB/s')}, weighted by bytes"
                emit(console, words(f"{text}: {value.source}"))
                console.print()
    for reason in found.unmatched:
        emit(console, words(f"not matched over the ranks: {reason}", "yellow"))
    if found.unmatched:
        console.print()


def _print_calls(console: Console, found: MatchedResult, top: int) -> None:
    titles = ("collective", "size", "transfer", "longest wait", "last to come", "busbw")
    shown = table(*titles, numbers="rest")
    longest = sorted(found.calls, key=lambda c: -(c.time_us + max(c.wait_us, default=0.0)))
    for call in longest[:top]:
        late = f"rank {call.straggler}, by {show(call.late_us, 'us')}"
        shown.add_row(
            words(f"{call.kind} #{call.index} {call.dtype}".rstrip(), width=40),
            words("-" if call.bytes is None else show(call.bytes, "bytes")),
            words(show(call.time_us, "us")),
            words(show(max(call.wait_us, default=0.0), "us")),
            words(late),
            words("-" if call.busbw_gb_s is None else number(call.busbw_gb_s)),
        )
    emit(console, shown)
