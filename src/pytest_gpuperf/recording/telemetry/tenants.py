"""Other processes on the device: who has a context there, and who used it within the window."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_gpuperf.recording.telemetry.binding import is_fatal
from pytest_gpuperf.recording.telemetry.board import Board


def own_pids(status: Path = Path("/proc/self/status")) -> frozenset[int]:
    """The ids of this process in every namespace that it can see itself in."""
    pids = {os.getpid()}
    try:
        lines = status.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("NSpid:"):
            pids.update(int(pid) for pid in line.split()[1:] if pid.isdigit())
    return frozenset(pids)


def others(listed: Iterable[int], own: frozenset[int]) -> int:
    """How many of the processes `listed` are not this one.

    The driver lists ids of the host, which a process in a container does not know its own of:
    where none of `own` is listed, one of those listed is taken to be this process.
    """
    pids = set(listed)
    return len(pids - own) if pids & own else max(0, len(pids) - 1)


def other_users(
    nvml: Any, board: Board, since_ns: int, own: frozenset[int] | None = None
) -> dict[str, int]:
    """Other processes on `board`.

    Returns
    -------
    dict
        ``other_contexts``, how many hold a context now; ``other_users``, how many had its
        multiprocessors work for them since `since_ns` (ns since the epoch). A count that the
        driver does not give (a MIG slice has no use by process) is left out.
    """
    own = own_pids() if own is None else own
    found = {}
    listed = _ask(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(board.device))
    if listed is not None:
        found["other_contexts"] = others((process.pid for process in listed), own)
    if board.is_slice:
        return found
    since_us = since_ns // 1000
    used = _ask(nvml, lambda: nvml.nvmlDeviceGetProcessUtilization(board.gpu, since_us))
    if used is not None:
        working = {s.pid for s in used if s.smUtil and s.timeStamp >= since_us}
        found["other_users"] = others(working, own)
    return found


def _ask(nvml: Any, question: Any) -> list[Any] | None:
    try:
        return list(question())
    except (AttributeError, nvml.NVMLError) as error:
        if is_fatal(nvml, error):
            raise
        return None
