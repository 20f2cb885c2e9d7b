"""Memory by category, its trend and its fragmentation, from a live run's block."""

from __future__ import annotations

from collections.abc import Iterator

from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.memory_block import CATEGORIES
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.stats import trend_value

SOURCE = "torch's memory profile, identities of tensors"
NOT_ASKED = "measured where a limit on memory or breakdown=True asks for it"


def memory_values(block: LiveBlock) -> Iterator[Value]:
    """``activation_memory`` and its kin, ``memory_growth``, ``reserved_over_allocated``.

    ``memory_growth`` is left to the trace's own steps where no others were followed.
    """
    found = block.memory
    for category in CATEGORIES:
        name = f"{category}_memory"
        if found is None or not found.largest:
            yield absent(name, NOT_ASKED)
        else:
            yield Value(name, float(found.largest.get(category, 0)), source=SOURCE)
    if found is not None and found.levels:
        yield trend_value("memory_growth", found.levels, "levels after each of some steps")
    if block.peak_bytes and block.peak_reserved_bytes:
        ratio = block.peak_reserved_bytes / block.peak_bytes
        yield Value("reserved_over_allocated", ratio, source="the allocator's own peaks")
