"""What earlier tests left on the GPU: memory that is allocated before a test's own fixtures run."""

from __future__ import annotations

import gc
import sys

import pytest

HELD = pytest.StashKey[int]()
_TOLD_FROM = 2**20


def held_bytes() -> int:
    """Bytes allocated on this process's GPUs now; 0 where torch or CUDA is not in use yet."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    # Tensors in dead reference cycles are garbage, not left.
    gc.collect()
    return sum(int(torch.cuda.memory_allocated(i)) for i in range(torch.cuda.device_count()))


def held_notes(item: pytest.Item) -> tuple[str, ...]:
    """A note where a mebibyte or more was held before `item`."""
    held = item.stash.get(HELD, 0)
    if held < _TOLD_FROM:
        return ()
    size = f"{held / 2**20:.1f} MiB"
    return (f"{size} were on the GPU before this test: an earlier one or a wider fixture holds it",)
