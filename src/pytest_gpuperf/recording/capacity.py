"""How much memory a step may use on a device, or could get now: the GPU's, or this machine's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_CGROUPS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)
"""Limit, what is in use, and which of it the kernel can take back: version 2 and version 1."""
_CGROUP, _MEMINFO = Path("/sys/fs/cgroup"), Path("/proc/meminfo")


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
    return host_capacity()


def host_capacity() -> tuple[int, str]:
    """Bytes of this machine's memory, or of its control group's limit, and which of the two."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [limit for limit in map(_limit, _CGROUP_LIMITS) if limit is not None]
    smallest = min(limits, default=whole)
    if smallest < whole:
        return smallest, "the control group's limit"
    return whole, "this machine's RAM"


def available_bytes(device: torch.device) -> int | None:
    """Bytes that this process could still get on `device` now; None where nobody tells.

    Of a GPU: what is free, and what torch's allocator holds without using it. Of a CPU: the
    kernel's estimate (MemAvailable: free, and caches that it can give up), or what the control
    group's limit leaves if that is less; swap is not in it.
    """
    if device.type == "cuda":
        cuda = import_torch().cuda
        kept = cuda.memory_reserved(device) - cuda.memory_allocated(device)
        return int(cuda.mem_get_info(device)[0]) + int(kept)
    left = [_field(_MEMINFO, "MemAvailable:", 1024)]
    for limit, used, given_up in _CGROUPS:
        most, now = _limit(str(_CGROUP / limit)), _limit(str(_CGROUP / used))
        if most is not None and now is not None:
            caches = _field((_CGROUP / limit).with_name("memory.stat"), given_up, 1) or 0
            left.append(max(most - now + caches, 0))
    return min((size for size in left if size is not None), default=None)


def _field(path: Path, name: str, unit: int) -> int | None:
    """The number after `name` in a file of names and numbers, times `unit`; None if none is."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    found = next((line.split() for line in lines if line.split()[:1] == [name]), [])
    return int(found[1]) * unit if len(found) > 1 and found[1].isdigit() else None


def _limit(path: str) -> int | None:
    """A control group's limit; None where there is none."""
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None
