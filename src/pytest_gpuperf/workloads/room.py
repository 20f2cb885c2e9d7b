"""Whether a workload fits into memory, before any of it is allocated.

A CPU has no "out of memory" to catch: the kernel ends the process, and with it the test run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.recording.capacity import available_bytes
from pytest_gpuperf.workloads.dtypes import SIZES
from pytest_gpuperf.workloads.workload import UnavailableError

if TYPE_CHECKING:
    import torch

WIDE = 8
"""Bytes of a float64, in which results are checked."""
COMPARED = 3 * WIDE
"""Bytes an element while a result and its reference, both whole, are held against each other."""


def made(dtype: str, *counts: int) -> int:
    """Bytes alive at most while tensors of `counts` elements are made, one after the other.

    Each is drawn in fp32, and both are alive while it is turned into another type.
    """
    size, most, before = SIZES[dtype], 0, 0
    for count in counts:
        drawn = 0 if dtype == "fp32" else SIZES["fp32"] * count
        most = max(most, before + drawn + size * count)
        before += size * count
    return most


def require_room(name: str, needed: int, device: torch.device) -> None:
    """Refuse what takes more memory than can be had on `device` now.

    Raises
    ------
    UnavailableError
        It does; the line names the shape, the bytes needed and those that are there.
    """
    there = available_bytes(device)
    if there is not None and needed > there:
        raise UnavailableError(
            f"gpuperf: {name} takes at least {needed:,} bytes ({needed / 2**30:,.1f} GiB) on "
            f"{device}, and {there:,} bytes ({there / 2**30:,.1f} GiB) are there: "
            "take a smaller shape"
        )
