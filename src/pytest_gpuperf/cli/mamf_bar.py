"""The progress bar of ``gpuperf mamf``: timings made of those planned, and the best so far."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pytest_gpuperf.cli.console import make_console

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.mamf.ranges import Shape
    from pytest_gpuperf.mamf.search import Search


class Bar:
    """A bar on the standard error, while it is entered; a call moves it."""

    def __init__(self) -> None:
        self._progress = Progress(
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=make_console(stderr=True),
        )
        self._task = self._progress.add_task("timing the first shape", total=None)

    def __enter__(self) -> Callable[[Search, Shape | None], None]:
        self._progress.start()
        return self._seen

    def _seen(self, search: Search, shape: Shape | None) -> None:
        best = search.best
        text = "no shape could be run yet"
        if shape is not None:  # a first shape that takes minutes is named before they are over
            text = "timing {}x{}x{}".format(*shape)
        if best is not None:
            m, n, k = best.shape
            text = f"best {best.rate / 1e12:.4g} TFLOPS at {m}x{n}x{k}"
        self._progress.update(
            self._task, completed=search.timings, total=search.planned, description=text
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()
