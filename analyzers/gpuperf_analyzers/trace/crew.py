"""Further processes that decode some of a trace's blocks, started once a file turns out long.

This process inflates, cuts the text into blocks, and gives a block to whoever is free; what nobody
is free for it decodes itself. Only a whole file is read like this: what is damaged, or told with
its place, is for one process alone (:class:`Unshared`).
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.trace.columns import EventColumns
from gpuperf_analyzers.trace.shares import (
    TABLES,
    Marks,
    Own,
    Share,
    bytes_of,
    join,
    marks_of,
    share_of,
)

FRAME = struct.Struct("<I")
"""Length of what follows; 0 is the end."""
READY, BAD, DONE = b".", b"!", b"="
"""Said by a process: ready for one block more; cannot read this one; what it read follows."""

_START_AFTER = 32
"""Blocks of 256 KiB: a process costs what decoding some 30 MB of text does."""
_PIPE = 1 << 20
_AHEAD = 3
"""Blocks given ahead, which a pipe of 1 MiB takes without making us wait."""
_END_S = 5.0
_PROGRAM = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from gpuperf_analyzers.trace.crew_member import main; main()"
)
"""Without the folder of work: a file beside a trace is not to stand in for a module."""
_ENVIRONMENT = {
    # It multiplies no matrices: a pool of threads for that costs time to start.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class Unshared(Exception):  # noqa: N818  # a signal to read alone, not an error
    """The file must be read by one process."""


class Crew:
    """Up to `helpers` processes beside this one; a context manager, which ends them."""

    def __init__(self, helpers: int) -> None:
        self._helpers = helpers
        self._members: list[_Member] = []
        self._blocks = 0
        self._order: list[int] = []
        self._own: list[Marks] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            member.end()

    @property
    def shared(self) -> bool:
        """Whether some blocks were given away."""
        return any(member.given for member in self._members)

    def start(self) -> None:
        """Start the processes; they are given blocks once they are there."""
        with contextlib.suppress(OSError):  # none to be had: this one reads alone
            while len(self._members) < self._helpers:
                self._members.append(_Member())

    def give(self, block: bytes, columns: EventColumns) -> bool:
        """Give `block` to a process that is free for it; False where none is.

        `columns` hold what this process has decoded before it.

        Raises
        ------
        Unshared
            A process could not read what it was given, or has ended.
        """
        self._blocks += 1
        if self._blocks == _START_AFTER:
            self.start()
        free = max(self._members, key=_Member.credit, default=None)
        if free is None or free.room < 1:
            return False
        self._note_own(columns)
        self._order.append(self._members.index(free) + 1)
        free.give(block)
        return True

    def joined(self, columns: EventColumns) -> EventColumns:
        """What all have read; `columns`, which hold this process' part, are used up.

        Raises
        ------
        Unshared
            A process could not read what it was given, or has ended.
        """
        if not self.shared:
            return columns
        if columns.odd:
            raise Unshared
        self._note_own(columns)
        helped = [member for member in self._members if member.given]
        place = {0: 0} | {self._members.index(m) + 1: i for i, m in enumerate(helped, start=1)}
        for member in helped:
            member.finish()
        own = share_of(columns, self._own)
        shares = [own, *(member.share() for member in helped)]
        return join(shares, [Own(columns), *helped], [place[who] for who in self._order])

    def _note_own(self, columns: EventColumns) -> None:
        marks = marks_of(columns)
        if marks != (self._own[-1] if self._own else Marks()):
            self._own.append(marks)
            self._order.append(0)


class _Member:
    """One process, and how many blocks it can be given now."""

    def __init__(self) -> None:
        self.given = 0
        self.room = 0
        self._there = self._gone = False
        self._rows: dict[str, int] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, **_ENVIRONMENT},
        )
        self._to = cast("IO[bytes]", self._process.stdin)
        self._from = cast("IO[bytes]", self._process.stdout)
        self._ahead = _AHEAD if _widened(self._to.fileno()) else 1
        _widened(self._from.fileno())  # or each column is fetched in many small parts
        os.set_blocking(self._from.fileno(), False)

    def credit(self) -> int:
        """Blocks that it can be given; none before it has said that it is there.

        Raises
        ------
        Unshared
            It could not read a block, or has ended with some.
        """
        said = None if self._gone else self._from.read(64)
        if said is None:
            return self.room
        if said == b"" or BAD in said:
            if self.given:
                raise Unshared
            self._gone = True
        elif not self._there:
            self._there = True
            self.room = self._ahead
        else:
            self.room += len(said)
        return self.room

    def give(self, block: bytes) -> None:
        """Send it one block."""
        self.room -= 1
        self.given += 1
        self._send(FRAME.pack(len(block)))
        self._send(block)

    def finish(self) -> None:
        """Say that there are no more blocks."""
        self._send(FRAME.pack(0))

    def share(self) -> Share:
        """What it read, its tables aside; waits for it."""
        import msgspec

        os.set_blocking(self._from.fileno(), True)
        while (said := self._from.read(1)) == READY:
            pass
        if said != DONE:
            raise Unshared
        (size,) = FRAME.unpack(self._exactly(FRAME.size))
        share = msgspec.msgpack.decode(self._exactly(size), type=Share)
        self._rows = share.rows
        return share

    def column(self, table: str, name: str) -> npt.NDArray[Any]:
        """The next column of its tables."""
        kind = TABLES[table][name]
        dtype, *width = kind if isinstance(kind, tuple) else (kind,)
        values = np.empty((self._rows[table], *width), dtype=dtype)
        self._fill(bytes_of(values))
        return values

    def end(self) -> None:
        """End the process, whatever it is at."""
        for pipe in (self._to, self._from):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._to.write(view) :]
        except OSError:
            raise Unshared from None

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        self._fill(memoryview(data))
        return bytes(data)

    def _fill(self, view: memoryview) -> None:
        while view:
            count = self._from.readinto(view)  # type: ignore[attr-defined]
            if not count:
                raise Unshared
            view = view[count:]


def _widened(pipe: int) -> bool:
    """Whether `pipe` was made to hold several blocks."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
    except (ImportError, AttributeError, OSError):
        return False
    return True
