"""What grew in memory between two runs, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import show
from pytest_gpuperf.cli.console import emit, table, words
from pytest_gpuperf.cli.views.snapshot import grown

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.memory_change import MemoryChange


def print_memory_change(console: Console, found: MemoryChange | None, top: int) -> None:
    """The change by category, then by place; nothing where memory is the same."""
    if found is None or not (found.places or found.before != found.after):
        return
    total = f"{show(found.before, 'bytes')} → {show(found.after, 'bytes')}"
    parts = ", ".join(f"{c.category} {grown(c.delta)}" for c in found.categories if c.delta)
    line = f"memory {found.of}: {total} ({grown(found.after - found.before)})"
    emit(console, words(f"{line}: {parts}" if parts else line))
    shown = table("memory, allocated in", "category", "before", "after", "change", numbers=3)
    for place in found.places[:top]:
        shown.add_row(
            words(place.where, width=60), place.category, show(place.before, "bytes"),
            show(place.after, "bytes"), grown(place.delta),
        )  # fmt: skip
    emit(console, shown)
