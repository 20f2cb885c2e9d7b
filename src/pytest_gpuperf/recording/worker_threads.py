"""Whether Python threads besides the caller's worked while a block ran.

torch's FLOP counter and its profiler follow the calling thread and what autograd starts from it,
but not the workload's own threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SHARE = 0.1


@dataclass(slots=True)
class ThreadWatch:
    """What :func:`watch_threads` saw; valid after its block."""

    worked: bool = False
    """A thread was started, or one that lived already used a tenth of the block's time."""


@contextmanager
def watch_threads() -> Iterator[ThreadWatch]:
    """Watch the block for work on other Python threads.

    A pool's thread is known by its processor time; one that is started and gone within the
    block by its start, for which ``Thread.start`` is replaced meanwhile.
    """
    watch = ThreadWatch()
    original = threading.Thread.start

    def start(self: threading.Thread) -> None:
        watch.worked = True
        original(self)

    before = _thread_seconds()
    begin = time.perf_counter()
    threading.Thread.start = start  # type: ignore[method-assign]
    try:
        yield watch
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]
    elapsed = time.perf_counter() - begin
    for ident, seconds in _thread_seconds().items():
        if ident in before and seconds - before[ident] > _SHARE * elapsed:
            watch.worked = True


def _thread_seconds() -> dict[int, float]:
    """Processor seconds of each other Python thread; empty where the system does not tell."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    if clock_of is None:
        return {}
    found = {}
    for thread in threading.enumerate():
        if thread.ident is None or thread is threading.current_thread():
            continue
        try:
            found[thread.ident] = time.clock_gettime(clock_of(thread.ident))
        except OSError:
            # It ended between the listing and the question.
            continue
    return found
