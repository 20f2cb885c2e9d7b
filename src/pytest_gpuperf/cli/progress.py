"""Progress of long work of the command, on the standard error: silent where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuperf_analyzers.display import harmless

Told = Callable[[int, int, str], None]
"""Takes how many are done, of how many, and the last one."""

FEWEST = 4
"""Files from which on progress is shown: fewer are read before it could be looked at."""


@contextmanager
def progress(what: str, count: int) -> Iterator[Told | None]:
    """A bar with what runs, how many are done, elapsed and left; None where nobody would see it."""
    if count < FEWEST or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from pytest_gpuperf.cli.console import make_console

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=make_console(stderr=True),
        transient=True,
    )
    task = shown.add_task(what, total=count)

    def told(done: int, total: int, last: str) -> None:
        name = harmless(last.rpartition("/")[2], 28)
        shown.update(task, completed=done, total=total, description=f"{what} {name}")

    with shown:
        yield told
