"""An exception of the user's workload, as they would see it without us."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TypeVar

_PACKAGE = Path(__file__).resolve().parent.parent
_RECORDING = _PACKAGE / "recording"

E = TypeVar("E", bound=BaseException)


def without_our_frames(error: E) -> E:
    """`error` without the frames of the recording that called the workload.

    What is left begins at the workload's first Python frame; nothing is left of one written in
    C. An exception from elsewhere in this package keeps its traceback: it is ours to mend.
    """
    last: TracebackType | None = None
    following = error.__traceback__
    while following is not None and _in(following, _PACKAGE):
        last, following = following, following.tb_next
    if last is None or not _in(last, _RECORDING):
        return error
    return error.with_traceback(following)


def _in(frame: TracebackType, folder: Path) -> bool:
    return folder in Path(frame.tb_frame.f_code.co_filename).parents
