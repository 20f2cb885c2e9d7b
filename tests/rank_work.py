"""Work over ranks that fresh interpreters can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from gpuperf_analyzers.trace.model import Trace


def count(trace: Trace) -> int:
    """How many events the trace has."""
    return len(trace.events)


def where(trace: Trace) -> tuple[int, int]:
    """Events, and the process that counted them."""
    time.sleep(0.3)
    return len(trace.events), os.getpid()


def fail_on_two(trace: Trace) -> int:
    """A defect on rank 2."""
    if trace.rank == 2:
        raise KeyError("no such thing\non rank 2")
    return len(trace.events)


def die_on_two(trace: Trace) -> int:
    """A process that is killed on rank 2, every time."""
    if trace.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return len(trace.events)


def die_once(trace: Trace) -> int:
    """A process that is killed on rank 2 the first time."""
    mark = Path(trace.path).with_suffix(".died")
    if trace.rank == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return len(trace.events)


def peak_memory(trace: Trace) -> int:
    """Bytes that this process has had at most, by now."""
    import resource

    assert len(trace.events)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
