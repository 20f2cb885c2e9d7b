"""How much memory a step may use on a device: the GPU's, or this machine's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def capacity_of(device: torch.device) -> tuple[int, str]:
    """Bytes that tensors of this process may take on `device`, and where that is known from.

    Of a GPU: what is free now and what this process's allocator holds already; contexts and other
    processes are left out. Of a CPU: this machine's memory, or its control group's limit.
    """
    if device.type == "cuda":
        torch = import_torch()
        free, total = torch.cuda.mem_get_info(device)
        usable = int(free) + int(torch.cuda.memory_reserved(device))
        return usable, f"usable of the GPU's {total / 2**30:.1f} GiB"
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [limit for limit in map(_limit, _CGROUP_LIMITS) if limit is not None]
    smallest = min(limits, default=whole)
    if smallest < whole:
        return smallest, "the control group's limit"
    return whole, "this machine's RAM"


def _limit(path: str) -> int | None:
    """A control group's limit; None where there is none."""
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None
