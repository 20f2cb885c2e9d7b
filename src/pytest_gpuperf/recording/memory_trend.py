"""The level of memory after each of some steps, and what of theirs nobody freed.

On a GPU the allocator knows its level. On a CPU the profiler sees every allocation and end, those
that only C++ holds (a graph that a kept loss keeps) too; each step is a session of its own, so
that no more than one step's events are held.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.memory_block import Cause
from gpuperf_analyzers.memory_categories import Event, causes_of
from pytest_gpuperf.recording.coordination import SOLO, Coordinator
from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.recording.in_flight import collectives_closed
from pytest_gpuperf.recording.memory import alive_bytes
from pytest_gpuperf.recording.memory_tree import walk
from pytest_gpuperf.recording.profiler_conflicts import further_profilers_refused

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording.sampling import Workload


@contextmanager
def memory_profile(coordinator: Coordinator = SOLO, **more: Any) -> Iterator[Any]:
    """The profiler of torch with memory events, by the CPU's activity alone: kernels are no use.

    It ends when the collectives of all ranks of `coordinator` have.
    """
    profiler = import_torch().profiler
    activities = [profiler.ProfilerActivity.CPU]
    with (
        profiler.profile(activities=activities, profile_memory=True, **more) as profile,
        further_profilers_refused(),
        collectives_closed(coordinator.barrier),
    ):
        yield profile


def trend(
    workload: Workload, device: torch.device, steps: int, coordinator: Coordinator = SOLO
) -> tuple[tuple[int, ...], tuple[Cause, ...]]:
    """Bytes alive after each of `steps` steps, and by place what they made that stayed.

    What the last step made does not count as staying: the next one may free it.
    """
    torch = import_torch()
    level = alive_bytes(device)
    levels: list[int] = []
    alive: dict[int, tuple[int, Event]] = {}
    for number in range(steps):
        with memory_profile(coordinator) as profile:
            workload()
            gc.collect()  # dead cycles are garbage, not growth
        roots = profile.profiler.kineto_results.experimental_event_tree()
        level += _follow(walk(roots, device, ()).events, number, alive)
        levels.append(_level(torch, device, level))
    kept = [event for born, event in alive.values() if born < steps - 1]
    rows = ((_CATEGORY, event.where, event.bytes) for event in kept)
    per_step = [
        Cause(c.category, c.where, c.bytes // max(steps - 1, 1), c.count) for c in causes_of(rows)
    ]
    lowest = min((0, *levels))  # a level counted from what Python sees may fall below 0
    return tuple(each - lowest for each in levels), tuple(per_step)


_CATEGORY = "unknown"
"""Who keeps what a step left is not known, only where it was made."""


def _level(torch: Any, device: torch.device, counted: int) -> int:
    if device.type != "cuda":
        return counted
    torch.cuda.synchronize(device)
    return int(torch.cuda.memory_allocated(device))


def _follow(events: Iterable[Event], number: int, alive: dict[int, tuple[int, Event]]) -> int:
    """Note what step `number` made and freed; the bytes by which it grew come back."""
    grown = 0
    for event in events:
        grown += event.bytes
        alive.pop(event.address, None)
        if event.bytes > 0:
            alive[event.address] = (number, event)
    return grown
