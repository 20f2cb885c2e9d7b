"""What a runtime or driver call does: launch, block, copy, allocate."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from gpuperf_analyzers.trace.classify import names_mask
from gpuperf_analyzers.trace.links import launches, nest_rows
from gpuperf_analyzers.trace.model import I64, Category, Trace

# Runtime and driver, CUDA and HIP, with their Ex, ExC, cooperative, module and graph forms; a
# host function (cuLaunchHostFunc) starts nothing on the device.
_LAUNCH = re.compile(r"(cuda|cu|hip)\w*?(Launch\w*Kernel\w*|GraphLaunch\w*)")
_SYNCHRONIZE = re.compile(r"(cuda|cu|hip)(Stream|Device|Event|Ctx|Context)Synchronize\w*")
# Copies without Async block the host; so does HIP's copy "with stream", unlike its name.
_BLOCKING_COPY = re.compile(
    r"(cuda|hip)Mem(cpy|set)(?!\w*Async)\w*|cuMemcpy(?!\w*Async)\w*|hipMemcpyWithStream"
)
_ALLOCATE = re.compile(
    r"(cuda|cu|hip)(Ext)?(Malloc|Free|HostAlloc|HostMalloc|HostFree|MallocHost|FreeHost|MemAlloc"
    r"|MemFree|MemCreate|MemRelease|MemMap|MemUnmap|HostRegister|HostUnregister)(?!\w*Async)\w*"
)


def is_launch(name: str) -> bool:
    """A call that starts a kernel or a graph."""
    return _LAUNCH.fullmatch(name) is not None


def is_synchronize(name: str) -> bool:
    """A call that waits for a stream, a device or an event."""
    return _SYNCHRONIZE.fullmatch(name) is not None


def is_blocking_copy(name: str) -> bool:
    """A copy or fill that returns when it is done."""
    return _BLOCKING_COPY.fullmatch(name) is not None


def is_allocation(name: str) -> bool:
    """A call of the driver's own allocator, which can wait for the device."""
    return _ALLOCATE.fullmatch(name) is not None


def calls(trace: Trace) -> I64:
    """Rows of all runtime and driver calls, in time order."""
    cached = trace.memo.get("calls")
    if cached is None:
        cached = trace.memo["calls"] = trace.rows(Category.RUNTIME, Category.DRIVER)
    rows: I64 = cached
    return rows


def call_rows(trace: Trace, test: Callable[[str], bool]) -> I64:
    """Rows of the runtime and driver calls whose name passes `test`, in time order."""
    rows = calls(trace)
    return rows[names_mask(trace, rows, test)]


def launch_calls(trace: Trace) -> I64:
    """Rows of the calls that start kernels, in time order; each launch once.

    By name, and every call that a kernel's correlation points to, whatever its name (profilers
    write ``INVALID`` for calls they do not know). A driver call inside a runtime call on the same
    thread is that call's own work.
    """
    cached = trace.memo.get("launch_calls")
    if cached is not None:
        known: I64 = cached
        return known
    wanted = np.zeros(len(trace.events), dtype=np.bool_)
    wanted[call_rows(trace, is_launch)] = True
    started = launches(trace)[trace.rows(Category.KERNEL)]
    wanted[started[started >= 0]] = True
    nest = nest_rows(trace, np.flatnonzero(wanted))
    wanted[nest.rows[nest.depth > 0]] = False
    trace.memo["launch_calls"] = result = np.flatnonzero(wanted)
    return result
