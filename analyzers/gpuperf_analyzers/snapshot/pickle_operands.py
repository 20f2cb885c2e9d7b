"""A pickle's bytes as its instructions take them: counted, up to a newline, as a number.

Lengths are checked against what is left of the data before anything is made of them.
"""

from __future__ import annotations

LONGEST_INTEGER = 16
"""Bytes of the longest integer: addresses and sizes have 8."""
_LONGEST_LINE = 4096


class PlainPickleError(ValueError):
    """The data is no pickle of plain containers and scalars; the message says why, in one line."""


class Operands:
    """The data and where it is read; what takes from it moves on."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = bytes(data)
        self._at = 0
        self._end = len(self._data)

    def _take(self, count: int) -> bytes:
        """The next `count` bytes."""
        begin = self._at
        if count < 0 or count > self._end - begin:
            left = self._end - begin
            raise PlainPickleError(
                f"it is truncated or damaged: {count:,} bytes are announced at byte {begin:,}, "
                f"{left:,} are left"
            )
        self._at = begin + count
        return self._data[begin : self._at]

    def _line(self) -> bytes:
        """What stands before the next newline."""
        begin = self._at
        stop = self._data.find(b"\n", begin, begin + _LONGEST_LINE)
        if stop < 0:
            raise PlainPickleError(f"it is damaged: a line at byte {begin:,} does not end")
        self._at = stop + 1
        return self._data[begin:stop]

    def _unsigned(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _number(self, line: bytes, kind: type[int] | type[float]) -> int | float:
        try:
            return kind(line[: 3 * LONGEST_INTEGER])
        except ValueError:
            raise PlainPickleError(f"it is damaged: {line[:40]!r} is no number") from None
