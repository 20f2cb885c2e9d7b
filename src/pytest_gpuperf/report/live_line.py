"""A line of progress right of pytest's own cursor: written over, and gone without a trace."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, TextIO

from gpuperf_analyzers.display import harmless, show

if TYPE_CHECKING:
    import pytest

    from pytest_gpuperf.recording.watching import Seen

_SAVE, _BACK, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"
_EVERY_S = 0.2
_NARROWEST = 24


class LiveLine:
    """Shows how far a measurement is, on a terminal that pytest writes to.

    Parameters
    ----------
    out
        The terminal; text goes to the right of the cursor, which is put back.
    room
        Columns right of the cursor.
    """

    def __init__(self, out: TextIO, room: int) -> None:
        self._out, self._room = out, room
        self._last = 0.0
        self._shown = False

    def __call__(self, seen: Seen) -> None:
        """Show `seen`, at most five times a second."""
        now = time.monotonic()
        if now - self._last < _EVERY_S or self._room < _NARROWEST:
            return
        self._last = now
        self._shown = True
        text = harmless(progress_text(seen), self._room - 1)
        self._out.write(f"{_SAVE}{_CLEAR} {text}{_BACK}")
        self._out.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._out.write(f"{_SAVE}{_CLEAR}{_BACK}")
            self._out.flush()
            self._shown = False


def progress_text(seen: Seen) -> str:
    """``41 samples, best 42.29 ms, 1.3 s of at most 2.0 s``; of ranks what they do."""
    time_ = f"{seen.spent_s:.1f} s of at most {seen.limit_s:.1f} s"
    if seen.best_us is None:
        calls = f", {seen.samples} call{'' if seen.samples == 1 else 's'}" if seen.samples else ""
        return f"{seen.what}{calls}, {time_}"
    taken = f"{seen.samples} sample{'' if seen.samples == 1 else 's'}"
    return f"{taken}, best {show(seen.best_us, 'us')}, {time_}"


class LiveTerminal:
    """The terminal that pytest writes to, also while it captures what a test writes.

    Made before the first capture: of the terminal's descriptor a second one is kept, for that of
    the standard output leads into pytest's own file while a test runs.
    """

    def __init__(self, config: pytest.Config) -> None:
        shown = config.pluginmanager.has_plugin("terminalreporter")
        self._writer = config.get_terminal_writer() if shown else None
        file = getattr(self._writer, "_file", None)
        wanted = config.option.verbose >= 0 and config.getoption("capture", "no") != "no"
        self._out: TextIO | None = None
        if wanted and file is not None and file.isatty():
            with contextlib.suppress(OSError, ValueError):
                # Closed by close().
                self._out = os.fdopen(os.dup(file.fileno()), "w", encoding=file.encoding)

    def line(self) -> LiveLine | None:
        """A line right of the cursor; None where there is no terminal."""
        if self._out is None or self._writer is None:
            return None
        return LiveLine(self._out, self._writer.fullwidth - self._writer.width_of_current_line - 1)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._out is not None:
            self._out.close()
            self._out = None
