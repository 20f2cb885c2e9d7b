"""An exception of the user's workload, as they would see it without us."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TypeVar

_PACKAGE = str(Path(__file__).resolve().parent.parent)

E = TypeVar("E", bound=BaseException)


def without_our_frames(error: E) -> E:
    """`error` with its traceback beginning at the user's own code.

    Frames of this package ahead of the first foreign one are dropped. An exception that never
    left this package keeps its traceback: it is ours to mend.
    """
    first = error.__traceback__
    while first is not None and _ours(first):
        first = first.tb_next
    return error.with_traceback(first) if first is not None else error


def _ours(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith(_PACKAGE)
