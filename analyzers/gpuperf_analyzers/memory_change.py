"""What grew in memory between two runs: by category, and by the place that allocated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpuperf_analyzers.analysis import Analysis
from gpuperf_analyzers.memory import MemoryResult
from gpuperf_analyzers.memory_block import CATEGORIES

AT_PEAK = "alive at the peak"
ALLOCATED = "allocated in the recording"


@dataclass(frozen=True, slots=True)
class PlaceChange:
    """Bytes of one category and place before and after; the category is "" where none is known."""

    category: str
    where: str
    before: int
    after: int

    @property
    def delta(self) -> int:
        """Bytes more after than before."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Memory of two runs.

    ``of`` says what is compared: what was alive at the peak, by category and place, where both
    runs measured that; else what each op allocated. ``categories`` sum to the change of the peak,
    and are empty where there are none. ``places`` are those that differ, the largest change first.
    """

    of: str
    before: int
    after: int
    categories: tuple[PlaceChange, ...]
    places: tuple[PlaceChange, ...]

    def to_json(self, top: int) -> dict[str, Any]:
        """The change with its first `top` places, as plain JSON types."""
        return {
            "of": self.of,
            "before": self.before,
            "after": self.after,
            "categories": [{**asdict(c), "delta": c.delta} for c in self.categories],
            "places": [{**asdict(p), "delta": p.delta} for p in self.places[:top]],
        }


def memory_change(before: Analysis, after: Analysis) -> MemoryChange | None:
    """What grew from `before` to `after`; None where memory was not recorded in both."""
    blocks = [side.block.memory if side.block else None for side in (before, after)]
    old, new = blocks
    if old is not None and new is not None and old.at_peak and new.at_peak:
        categories = tuple(
            PlaceChange(name, "", old.at_peak.get(name, 0), new.at_peak.get(name, 0))
            for name in CATEGORIES
        )
        places = _places(
            *({(c.category, c.where): c.bytes for c in block.causes} for block in (old, new))
        )
        return MemoryChange(AT_PEAK, old.peak_bytes, new.peak_bytes, categories, places)
    ops = [_by_op(side) for side in (before, after)]
    if not all(ops):
        return None
    sums = [sum(rows.values()) for rows in ops]
    return MemoryChange(ALLOCATED, sums[0], sums[1], (), _places(*ops))


def _by_op(side: Analysis) -> dict[tuple[str, str], int]:
    if not side.devices:
        return {}
    found: MemoryResult = side.devices[0].results["memory"]
    return {("", op.op): op.bytes for op in found.by_op}


def _places(
    before: Mapping[tuple[str, str], int], after: Mapping[tuple[str, str], int]
) -> tuple[PlaceChange, ...]:
    changes = (
        PlaceChange(*key, before.get(key, 0), after.get(key, 0))
        for key in before.keys() | after.keys()
    )
    differ = [change for change in changes if change.delta]
    return tuple(sorted(differ, key=lambda c: (-abs(c.delta), c.category, c.where)))
