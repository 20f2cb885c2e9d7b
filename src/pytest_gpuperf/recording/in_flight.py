"""Collectives that a step left running must have ended before a profiler does.

A worker thread of gloo opens the span of a collective under the profiler that was at work when the
collective was called, and closes it when the collective is done. Where that profiler has ended in
between, torch 2.13 writes into memory that it gave back, and the process crashes at some later
moment. There is no public question for what is under way, so this waits instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from time import perf_counter, sleep

from pytest_gpuperf.recording.errors import import_torch

_SPAN_CLOSE_S = 0.05
"""gloo tells the waiting thread that a collective is done before it closes the span."""


@contextmanager
def collectives_closed(barrier: Callable[[], None]) -> Iterator[None]:
    """Leave the block once the collectives that were called in it have surely ended.

    No wait without a process group of several ranks, nor where the block raises: then the other
    ranks may not come.

    Parameters
    ----------
    barrier
        Returns once all ranks have called it, so that each collective has all its partners. The
        rest is waited for as long as the block took: what is called in one step and waited for in
        the next takes no longer than a step.
    """
    began = perf_counter()
    yield
    took_s = perf_counter() - began
    if _several_ranks():
        _unrecorded(barrier)
        sleep(_SPAN_CLOSE_S + took_s)


def _several_ranks() -> bool:
    distributed = import_torch().distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    return int(distributed.get_world_size()) > 1


def _unrecorded(barrier: Callable[[], None]) -> None:
    """Call `barrier` on a thread of its own, which torch's profilers do not record."""
    raised: list[BaseException] = []

    def call() -> None:
        try:
            barrier()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            raised.append(error)

    thread = Thread(target=call, name="gpuperf-barrier", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
