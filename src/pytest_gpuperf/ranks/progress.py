"""How far a rank is, readable by another process while the rank hangs.

A small file mapped into memory: writing to it is a store, not a call to the system, so that it
may be done around every call of a measured step.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_COUNTS = struct.Struct("qq")
_STAGE_BYTES = 112
_SIZE = _COUNTS.size + _STAGE_BYTES


class Progress:
    """The writing side: a stage in words, calls begun and calls done."""

    __slots__ = ("_counts", "_map")

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._counts = memoryview(self._map)[: _COUNTS.size].cast("q")

    def stage(self, text: str) -> None:
        """Tell in words what comes next."""
        encoded = text.encode("utf-8", "replace")[:_STAGE_BYTES]
        self._map[_COUNTS.size :] = encoded.ljust(_STAGE_BYTES, b"\0")

    def begin(self) -> None:
        """Count a call that begins."""
        self._counts[0] += 1

    def end(self) -> None:
        """Count a call that ended."""
        self._counts[1] += 1


def read_progress(path: Path) -> tuple[str, int, int]:
    """Stage, calls begun and calls done as last told; zeros where nothing was told yet."""
    try:
        raw = path.read_bytes()
    except OSError:
        raw = b""
    if len(raw) < _SIZE:
        return "", 0, 0
    begun, done = _COUNTS.unpack_from(raw)
    stage = raw[_COUNTS.size : _SIZE].rstrip(b"\0").decode("utf-8", "ignore")
    return stage, begun, done
