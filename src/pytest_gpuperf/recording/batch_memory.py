"""Peaks of memory at several batch sizes, and the line through them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpuperf_analyzers.batch_fit import BatchFit, fit_line
from gpuperf_analyzers.fit_error import FitError
from gpuperf_analyzers.quantities import QuantityError, parse_quantity
from pytest_gpuperf.recording.capacity import capacity_of
from pytest_gpuperf.recording.devices import resolve_device
from pytest_gpuperf.recording.errors import import_torch, is_out_of_memory
from pytest_gpuperf.recording.memory import alive_bytes
from pytest_gpuperf.recording.memory_tree import walk
from pytest_gpuperf.recording.memory_trend import memory_profile
from pytest_gpuperf.recording.profiler_conflicts import refuse_active_profiler
from pytest_gpuperf.recording.quiet import garbage_collection_off

if TYPE_CHECKING:
    import torch

_WARM_CALLS = 2
"""Calls before the one that is measured: the first ones make an optimizer's state."""


def fit_memory(
    step: Callable[[int], object],
    *,
    sizes: Sequence[int],
    device: str | torch.device | None = None,
    memory: str | float | None = None,
) -> BatchFit:
    """Measure the peak of ``step(batch)`` at `sizes`, and fit ``model + batch x per_sample``.

    Parameters
    ----------
    step
        One step on a batch of the given size.
    sizes
        Two different batch sizes or more; three tell whether memory is linear in the batch.
    device
        Where; None takes the first GPU, or the CPU.
    memory
        What the device may hold (``"24GiB"``), where that is not the device's own.

    Raises
    ------
    FitError
        `sizes` are not two different whole numbers above 0 or more, `memory` is no size, or memory
        ran out before two sizes were measured. Where it ran out later, the fit says at which.
    RecordingError
        A profiler is active already.
    """
    wanted = sorted(set(sizes))
    if len(wanted) < 2 or not all(type(size) is int and size > 0 for size in wanted):
        raise FitError(
            f"gpuperf: sizes={list(sizes)!r} must be two different whole numbers above 0 or more"
        )
    refuse_active_profiler()
    where = resolve_device(None if device is None else str(device))
    if memory is None:
        capacity, source = capacity_of(where)
    else:
        try:
            capacity = int(parse_quantity(memory, "bytes", bare_allowed=True).value)
        except QuantityError as error:
            raise FitError(f"gpuperf: memory: {error}") from None
        source = "as declared"
    peaks, ran_out = _peaks(step, wanted, where)
    measured = wanted[: len(peaks)]
    fit = fit_line(measured, peaks, capacity_bytes=capacity, capacity_source=source)
    return replace(fit, out_of_memory=ran_out)


def _peaks(
    step: Callable[[int], object], sizes: Sequence[int], device: torch.device
) -> tuple[list[int], int | None]:
    """The peak at each of the rising `sizes`, up to the one at which memory ran out."""
    peaks: list[int] = []
    for size in sizes:
        try:
            peaks.append(_peak(partial(step, size), device))
        except (MemoryError, RuntimeError) as error:  # noqa: PERF203 - a call is seconds
            if not is_out_of_memory(type(error).__name__, str(error)):
                raise
            if len(peaks) < 2:
                raise FitError(
                    f"gpuperf: memory ran out at batch size {size}: a line takes two sizes that "
                    f"fit, {len(peaks)} did"
                ) from error
            return peaks, size
    return peaks, None


def _peak(step: Callable[[], object], device: torch.device) -> int:
    """Bytes alive at most while `step` runs once, what was alive before among them."""
    with garbage_collection_off():
        for _ in range(_WARM_CALLS - 1):
            step()
        if device.type == "cuda":
            cuda = import_torch().cuda
            step()
            gc.collect()
            cuda.reset_peak_memory_stats(device)
            step()
            cuda.synchronize(device)
            return int(cuda.max_memory_allocated(device))
        with memory_profile():  # tells torch the sizes of what the next call frees
            step()
        before = alive_bytes(device)
        with memory_profile() as profile:
            step()
        level = highest = 0
        roots = profile.profiler.kineto_results.experimental_event_tree()
        for event in walk(roots, device, ()).events:
            level += event.bytes
            highest = max(highest, level)
        return before + highest
