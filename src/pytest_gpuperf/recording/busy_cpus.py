"""How much of the CPUs other processes took while samples were taken.

From ``/proc/stat``: what the CPUs that this process may use were busy with, minus what this
process, its threads and the children it waited for used. A hypervisor that gave a CPU to another
guest (steal) counts as others too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TOLD_FROM = 0.1
"""Share of the CPUs from which on it is told."""
TOLD = "of the CPUs while samples were taken"
"""What the note ends with, by which it is known again."""
_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # idle and iowait
_SHORTEST_TICKS = 10.0
"""The kernel counts whole ticks on each CPU: a shorter time than this would be guessed."""


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """Ticks since the machine started, over the CPUs that this process may use."""

    total: float
    busy: float
    own: float


def others_share(before: CpuTicks, after: CpuTicks, cpus: int) -> float | None:
    """Share of `cpus` CPUs that others took between two moments; None where it was too short."""
    total = after.total - before.total
    if total < _SHORTEST_TICKS * cpus:
        return None
    others = (after.busy - before.busy) - (after.own - before.own)
    return min(1.0, max(0.0, others / total))


def watch_others(*, siblings: bool) -> Callable[[], tuple[str, ...]]:
    """Begin to watch; what is returned ends it and gives the note, if there is one to give.

    Parameters
    ----------
    siblings
        Whether processes of the same parent belong to the measurement, as ranks do.
    """
    cpus = _usable()
    before = read_ticks(cpus, siblings=siblings)

    def notes() -> tuple[str, ...]:
        after = read_ticks(cpus, siblings=siblings)
        if before is None or after is None:
            return ()
        share = others_share(before, after, len(cpus))
        if share is None or share < TOLD_FROM:
            return ()
        return (f"other processes took {share:.0%} {TOLD}",)

    return notes


def _usable() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def read_ticks(
    cpus: frozenset[int], *, siblings: bool = False, stat: Path = _STAT
) -> CpuTicks | None:
    """The ticks of `cpus` now; None where the system does not tell (no ``/proc/stat``)."""
    try:
        lines = stat.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    total = busy = 0.0
    for line in lines:
        name, *fields = line.split()
        if not name.startswith("cpu") or not name[3:].isdigit() or int(name[3:]) not in cpus:
            continue
        # The last two of ten are guests' time, which stands in user and nice already.
        ticks = [float(field) for field in fields[:8]]
        total += sum(ticks)
        busy += sum(ticks) - sum(ticks[i] for i in _IDLE if i < len(ticks))
    if not total:
        return None
    return CpuTicks(total, busy, _siblings_ticks() if siblings else _own_ticks())


def _own_ticks() -> float:
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system
    return seconds * os.sysconf("SC_CLK_TCK")


def _siblings_ticks() -> float:
    """Ticks of every process that has our parent: this one, and the other ranks."""
    parent, ticks = os.getppid(), 0.0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        # The name, in parentheses, may hold blanks; state and parent come right after it.
        fields = text.rpartition(")")[2].split()
        if int(fields[1]) == parent:
            ticks += float(fields[11]) + float(fields[12])
    return ticks
