"""Two processes that measure the same workload in turns, slice by slice.

For a comparison of two revisions both processes live at the same time, and whoever does not have
the turn waits, blocked in a read. A load that comes and goes meets both, since a slice is short;
the machine's drift is common to both; and what they start with (importing torch) takes the time of
one. The turn is a byte in a pair of pipes, so that it is lost with the process that held it: the
other one then goes on alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

VARIABLE = "GPUPERF_TURNS"
"""``READ,WRITE,FIRST``: file descriptors of the pipes from and to the other process, and 1 for the
process that begins."""
SLICES = 12
"""Slices that the samples of a workload are taken in."""
TIME_SHARE = 0.25
"""Share of ``max_time`` that is sampled in each process: there are many processes."""
WARMUP_SHARE = 0.3
"""Share of ``warmup``: what a process warms up, the other one has not kept warm."""


@dataclass(slots=True)
class Turns:
    """One process's side of the two.

    Attributes
    ----------
    first
        Whether it begins.
    """

    _read: int
    _write: int
    first: bool
    _mine: bool = False
    _alone: bool = False
    _entered: bool = False
    _left: bool = False

    def __post_init__(self) -> None:
        # The one that begins waits until the other one is as far as it is.
        self._mine = not self.first

    def enter(self) -> None:
        """Before the first measurement: return once it is this process's turn."""
        if not self._entered and not self.first:
            self.give()
        self._entered = True
        self.take()

    def take(self) -> None:
        """Wait for the turn, if it is not here."""
        if self._mine or self._alone:
            return
        try:
            self._mine = bool(os.read(self._read, 1))
        except OSError:
            self._mine = False
        self._alone = not self._mine

    def give(self) -> None:
        """Hand the turn to the other process."""
        if self._alone:
            return
        try:
            os.write(self._write, b"t")
        except OSError:  # it has ended
            self._alone = True
        self._mine = False

    def leave(self) -> None:
        """At the end of this process: the other one goes on alone."""
        if self._left:  # the numbers may be somebody else's by now
            return
        self._left = self._alone = True
        for descriptor in (self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@contextlib.contextmanager
def whole_turn() -> Iterator[bool]:
    """A measurement that is not taken in slices, as of several ranks, is one turn.

    True where another process holds the device for both, so that it need not be locked again.
    """
    mine = turns()
    if mine is None:
        yield False
        return
    mine.enter()
    yield not mine.first
    mine.give()
    mine.take()


@lru_cache(maxsize=1)
def turns() -> Turns | None:
    """The side that this process is; None where it measures on its own. One a process."""
    written = os.environ.pop(VARIABLE, "")
    if not written:
        return None
    read, write, first = (int(part) for part in written.split(","))
    for descriptor in (read, write):
        os.set_inheritable(descriptor, False)  # a child of the workload's must not keep the turn
    return Turns(read, write, bool(first))
