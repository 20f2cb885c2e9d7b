"""What torch counts by itself while a workload is called: compilation's mishaps, the allocator's.

The counts are read before and after; the difference is the workload's. torch._dynamo is never
imported for it (that takes a second): where nobody has, nothing was compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

NOT_COMPILED = "nothing was compiled while it was measured (torch.compile)"
_CHANGED = "this torch keeps its compiler's counts elsewhere"
_RESET = "torch._dynamo.reset() was called while it was measured"


@dataclass(frozen=True, slots=True)
class TorchCounts:
    """Counts by metric (``graph_breaks``, ``recompiles``, ``allocator_retries``).

    Attributes
    ----------
    counted
        Those that are known.
    absent
        Why another one is not, by its name.
    """

    counted: Mapping[str, int] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: TorchCounts) -> TorchCounts:
        """The counts of two parts of one measurement; a part that compiled nothing adds none."""
        counted = dict(self.counted)
        for name, count in other.counted.items():
            counted[name] = counted.get(name, 0) + count
        absent = {**self.absent, **other.absent}
        broken = {n: why for n, why in absent.items() if n not in counted or why != NOT_COMPILED}
        return TorchCounts({n: c for n, c in counted.items() if n not in broken}, broken)

    def known(self) -> dict[str, int]:
        """The counts, 0 graph breaks included where nothing was compiled that could have any."""
        none = {n: 0 for n, why in self.absent.items() if why == NOT_COMPILED}
        return {**none, **self.counted}


@dataclass(frozen=True, slots=True)
class _Compiler:
    """torch._dynamo's counts at one moment; None where it is not loaded."""

    frames: int
    graph_breaks: int
    recompiles: int


_NOTHING = _Compiler(0, 0, 0)


def counting(device: torch.device) -> Callable[[], TorchCounts]:
    """Begin to count; what is returned ends it and gives the counts since.

    Parameters
    ----------
    device
        Whose allocator is asked.
    """
    retries, compiler, known = _retries(device), _compiler(), _dynamo_known()

    def counts() -> TorchCounts:
        found = _compiled(compiler, _compiler(), known=known and _dynamo_known())
        now = _retries(device)
        if retries is None or now is None:
            why = "a CPU has no caching allocator" if device.type == "cpu" else "not told by torch"
            return replace(found, absent={**found.absent, "allocator_retries": why})
        return replace(found, counted={**found.counted, "allocator_retries": now - retries})

    return counts


def _compiled(before: _Compiler | None, after: _Compiler | None, *, known: bool) -> TorchCounts:
    """Graph breaks and recompilations between two moments.

    Graph breaks are found when a function is compiled: where none was, whether it has any is not
    known. That nothing was compiled again is known all the same.
    """
    names = ("graph_breaks", "recompiles")
    if not known:
        return TorchCounts(absent=dict.fromkeys(names, _CHANGED))
    before, after = before or _NOTHING, after or _NOTHING
    counted = {
        "graph_breaks": after.graph_breaks - before.graph_breaks,
        "recompiles": after.recompiles - before.recompiles,
    }
    if min(after.frames - before.frames, *counted.values()) < 0:
        return TorchCounts(absent=dict.fromkeys(names, _RESET))
    if after.frames == before.frames:
        del counted["graph_breaks"]
        return TorchCounts(counted, {"graph_breaks": NOT_COMPILED})
    return TorchCounts(counted)


def _dynamo_known() -> bool:
    """Whether the compiler's counts are where we look for them, as far as it is loaded."""
    convert = sys.modules.get("torch._dynamo.convert_frame")
    return convert is None or hasattr(convert, "FRAME_COMPILE_COUNTER")


def _compiler() -> _Compiler | None:
    utils = sys.modules.get("torch._dynamo.utils")
    convert = sys.modules.get("torch._dynamo.convert_frame")
    compiled = getattr(convert, "FRAME_COMPILE_COUNTER", None)
    if utils is None or compiled is None:
        return None
    # How often each code object was compiled: once is what it takes.
    times = list(compiled.values())
    breaks = utils.counters.get("graph_break", {})
    return _Compiler(sum(times), sum(breaks.values()), sum(t - 1 for t in times if t > 1))


def _retries(device: torch.device) -> int | None:
    """How often the allocator had to free its cache and try again; None where it is not told."""
    if device.type != "cuda":
        return None
    count = import_torch().cuda.memory_stats(device).get("num_alloc_retries")
    return None if count is None else int(count)
