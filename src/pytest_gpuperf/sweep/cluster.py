"""Points on the workers of a Dask cluster that someone else runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from gpuperf_analyzers.trace.cluster import connected
from pytest_gpuperf.sweep.points import PointResult, RefusedError

Run = Callable[..., PointResult]
_running: dict[str, set[int]] = {}
"""On a worker: ids of the processes above the points that run, by sweep."""
_ended: set[str] = set()
_guard = threading.Lock()


class SchedulerLostError(Exception):
    """The scheduler went away while points were out: one line."""


def over_workers(
    todo: Sequence[tuple[int, dict[str, Any]]], run: Run, scheduler: Any
) -> Generator[tuple[int, PointResult | str], None, None]:
    """Index and result of each point as it is done; a line where its worker was lost with it.

    A point that was on a worker that died is tried by others, as Dask does, until it has cost
    several of them. Left early, the points that still run are ended on their workers.

    Raises
    ------
    TraceError
        Dask is not installed, or the scheduler does not answer.
    RefusedError
        A worker cannot use the function.
    SchedulerLostError
        The scheduler went away.
    """
    sweep = uuid4().hex
    with connected(scheduler) as client:
        import distributed

        as_completed: Callable[..., Any] = distributed.as_completed  # Dask has no annotations
        # In the order of the grid, which the keys alone would not keep.
        futures = {
            client.submit(_on_worker, run, sweep, index, values, pure=False, priority=-index): index
            for index, values in todo
        }
        done = False
        try:
            for future in as_completed(list(futures)):
                index = futures.pop(future)  # the last reference: the cluster lets it go
                if future.cancelled():  # not by us
                    raise SchedulerLostError("the Dask scheduler went away")
                yield index, _outcome(future)
            done = True
        finally:
            if not done:
                with suppress(Exception):  # who is gone has nothing to end
                    client.cancel(list(futures))
                    client.run(_end, sweep, on_error="ignore")


def _outcome(future: Any) -> PointResult | str:
    error = future.exception()
    if isinstance(error, RefusedError):
        raise error
    if error is not None:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    found: PointResult = future.result()
    return found


def _on_worker(run: Run, sweep: str, index: int, values: dict[str, Any]) -> PointResult:
    """Run a point here, so that :func:`_end` finds its processes."""
    own: list[int] = []
    try:
        return run(index, values, started=partial(_started, sweep, own))
    finally:
        with _guard:  # before the system gives the ids to others
            _running.get(sweep, set()).difference_update(own)


def _started(sweep: str, own: list[int], pid: int) -> None:
    own.append(pid)
    with _guard:
        if sweep in _ended:  # while this one waited for its turn
            os.kill(pid, signal.SIGTERM)
        _running.setdefault(sweep, set()).add(pid)


def _end(sweep: str) -> int:
    """End the points of `sweep` that run on this worker; how many there were."""
    with _guard:
        _ended.add(sweep)
        pids = _running.pop(sweep, set())
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        return len(pids)
