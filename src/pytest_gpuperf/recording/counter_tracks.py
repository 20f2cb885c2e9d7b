"""Counter events written into a trace that the profiler has exported.

The trace is text, and may be large: it is copied once, from file to file, with the new events in
front of its own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

MakeEvents = Callable[[int], Sequence[Mapping[str, Any]]]
"""Makes the events of a trace with the ``baseTimeNanoseconds`` given (0 where it has none)."""

_CHUNK = 1 << 20
_TAIL = 1 << 16
# In a string of the trace the quotes would be escaped, so that neither matches there.
_EVENTS = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[\s*')
_BASE = re.compile(rb'(?<!\\)"baseTimeNanoseconds"\s*:\s*(\d+)')


def copy_with_events(source: Path, target: BinaryIO, make_events: MakeEvents | None) -> None:
    """Copy the trace `source` to `target`, with the events that `make_events` gives.

    A trace whose events cannot be found is copied as it is.
    """
    with source.open("rb") as file:
        head, begin = _head(file)
        if make_events is not None and begin:
            events = make_events(_base_ns(file, head[:begin]))
            text = b",\n".join(json.dumps(event).encode() for event in events)
            followed = head[begin : begin + 1] not in (b"]", b"")
            target.write(head[:begin])
            target.write(text + b",\n" if text and followed else text)
            target.write(head[begin:])
        else:
            target.write(head)
        file.seek(len(head))
        shutil.copyfileobj(file, target, _CHUNK)


def _head(file: BinaryIO) -> tuple[bytes, int]:
    """The text up to and beyond where the events begin, and that place; 0 where they do not."""
    head = b""
    while chunk := file.read(_CHUNK):
        head += chunk
        found = _EVENTS.search(head)
        if found is not None and found.end() < len(head):
            return head, found.end()
    return head, 0


def _base_ns(file: BinaryIO, head: bytes) -> int:
    """``baseTimeNanoseconds``, which stands before the events or behind them; 0 without it."""
    found = _BASE.search(head)
    if found is None:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        found = _BASE.search(file.read())
    return 0 if found is None else int(found[1])
