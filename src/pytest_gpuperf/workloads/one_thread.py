"""One thread that counts: the device is 100% "utilized" and next to empty.

NVML's GPU-Util is the share of time with at least one kernel. This kernel is one block of one
thread, so that utilization reads near 100% while one multiprocessor of all has a warp.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.workload import Prepared, UnavailableError, Workload, whole

if TYPE_CHECKING:
    import torch


def spin(cycles: int = 10_000_000) -> Workload:
    """One thread that waits for so many clock cycles, as ``torch.cuda._sleep`` launches it.

    No FLOP and no bytes. ``gpu_util`` is near 100%, ``sm_active`` (:func:`saturation`) 1 over the
    number of multiprocessors.

    Raises
    ------
    ValueError
        `cycles` is no whole number above 0.
    """
    whole(cycles=cycles)
    return Workload(
        name=f"spin-{cycles}",
        build=partial(_build, cycles),
        counted=False,
        notes=("one thread of one block: every multiprocessor but one stands empty",),
    )


def saturation(device: torch.device) -> float:
    """1 over the multiprocessors of `device`: what the kernel can fill."""
    return 1 / int(import_torch().cuda.get_device_properties(device).multi_processor_count)


def _build(cycles: int, device: torch.device) -> Prepared:
    torch = import_torch()
    if device.type != "cuda":
        raise UnavailableError("gpuperf: a thread of a GPU needs a CUDA GPU")
    return Prepared(partial(torch.cuda._sleep, cycles))  # noqa: SLF001 - torch has no public name for it
