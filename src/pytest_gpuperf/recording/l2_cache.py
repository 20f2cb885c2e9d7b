"""A GPU's second-level cache before each sample: as the last call left it (hot), or flushed (cold).

Cold writes a buffer twice as large as the cache, in the same stream and ahead of the sample's
first mark, so that what the workload reads comes from memory. Hot is what calls back to back give.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.sampling import Workload

if TYPE_CHECKING:
    import torch

FLUSH_FACTOR = 2
"""Bytes written over bytes of cache: replacement need not be in order of use."""


def cache_bytes(device: torch.device) -> int:
    """Bytes of the second-level cache.

    Raises
    ------
    RecordingError
        torch does not tell.
    """
    size = getattr(import_torch().cuda.get_device_properties(device), "L2_cache_size", 0)
    if not size:
        raise RecordingError(
            "gpuperf: l2='cold' needs the size of the L2 cache, which this torch does not tell: "
            "update torch, or leave l2= out"
        )
    return int(size)


def flushed(workload: Workload, device: torch.device) -> Workload:
    """`workload` with the cache flushed after each setup; calls are then not timed together.

    Raises
    ------
    RecordingError
        torch does not tell the size of the cache.
    """
    torch = import_torch()
    size = FLUSH_FACTOR * cache_bytes(device)
    buffer = torch.empty(size, dtype=torch.int8, device=device)
    return Workload(workload.step, _after(workload.setup, buffer), workload.teardown)


def _after(setup: Callable[[], object] | None, buffer: Any) -> Callable[[], object]:
    def prepared() -> None:
        if setup is not None:
            setup()
        buffer.zero_()

    return prepared


def rotated(step: Callable[[], object], device: torch.device) -> list[Callable[[], object]] | None:
    """Calls of `step` on copies of its tensors that together are twice the cache.

    For calls that follow each other without a pause, as in a CUDA graph: when the first copy's
    turn comes again, the cache holds others. None where `step` was given no tensors of its own
    (``functools.partial``), so that there is nothing to copy.

    Raises
    ------
    RecordingError
        torch does not tell the size of the cache.
    """
    torch = import_torch()
    if not isinstance(step, partial):
        return None
    given = [*step.args, *step.keywords.values()]
    tensors = [t for t in given if isinstance(t, torch.Tensor) and t.device == device]
    held = sum(t.numel() * t.element_size() for t in tensors)
    if not held:
        return None
    copies = -(-FLUSH_FACTOR * cache_bytes(device) // held) + 1
    return [step, *(_copied(torch, step, device) for _ in range(min(copies, _MOST_COPIES) - 1))]


_MOST_COPIES = 256


def _copied(torch: Any, step: Any, device: torch.device) -> Callable[[], object]:
    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.device != device:
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    keywords = {name: copy(value) for name, value in step.keywords.items()}
    return partial(step.func, *map(copy, step.args), **keywords)
