"""A timeline of any length in few bytes: shares of bins for the whole, single events where it pays.

A row (a stream, a device) is ``bins`` equal stretches, each with the share of it that each class
was running: a byte a class. The page makes every coarser level from these by sums, so that
drawing costs the width of the window whatever the number of kernels. Single events are kept of a
row that has few, else its longest and those of one step: what one would zoom in on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.intervals import Spans
from gpuperf_analyzers.trace.model import I64
from pytest_gpuperf.report.html.embed import packed

FULL = 255
"""The byte of a bin that a class ran in all the time."""
_FEWEST, _MOST = 256, 32_768


@dataclass(frozen=True, slots=True)
class Singles:
    """Single events of a row in time order: ns, index of the name, index of the class.

    ``all`` is whether every event of the row is among them; ``of`` how many the row has.
    """

    start: I64
    duration: I64
    name: I64
    kind: I64
    of: int

    @property
    def all(self) -> bool:
        """Whether none is left out."""
        return len(self.start) == self.of


def shares(spans: Spans, start: int, end: int, bins: int) -> npt.NDArray[np.uint8]:
    """The share of each of `bins` equal stretches of [start, end) that `spans` cover, 0 to 255.

    ``spans`` are disjoint and sorted. Covered time up to an edge is linear between the ends of
    spans, so one interpolation gives it at every edge. What is covered at all is at least 1.
    """
    if end <= start or not len(spans):
        return np.zeros(bins, np.uint8)
    edges = np.linspace(start, end, bins + 1)
    ends = spans.reshape(-1).astype(np.float64)
    covered = np.repeat(np.cumsum(spans[:, 1] - spans[:, 0]), 2).astype(np.float64)
    covered[::2] -= spans[:, 1] - spans[:, 0]
    filled = np.diff(np.interp(edges, ends, covered))
    exact = np.clip(filled / ((end - start) / bins), 0.0, 1.0)
    rounded = np.rint(exact * FULL)
    return np.where((exact > 0) & (rounded == 0), 1, rounded).astype(np.uint8)


def bins_for(rows: int, budget: int) -> int:
    """How many bins each of `rows` rows of up to three classes gets of `budget` bytes in all."""
    each = max(budget // max(3 * rows, 1), 1)
    return int(np.clip(2 ** int(np.log2(each)), _FEWEST, _MOST))


def chosen(start: I64, duration: I64, most: int, favoured: tuple[int, int] | None) -> I64:
    """Which events to keep one by one: all, or the longest half and those of a stretch.

    Parameters
    ----------
    start, duration
        Of every event, ns, in time order.
    most
        How many to keep.
    favoured
        The stretch whose events come before all but the longest.
    """
    if len(start) <= most:
        return np.arange(len(start))
    keep = np.zeros(len(start), np.bool_)
    if favoured is not None:
        inside = np.flatnonzero((start >= favoured[0]) & (start < favoured[1]))
        keep[inside[: most // 2]] = True
    rest = np.argsort(-duration, kind="stable")
    rest = rest[~keep[rest]][: most - int(keep.sum())]
    keep[rest] = True
    return np.flatnonzero(keep)


def row_spec(
    label: str,
    classes: Mapping[str, Spans],
    start: int,
    end: int,
    bins: int,
    singles: Singles | None,
) -> dict[str, Any]:
    """One row as the page reads it."""
    used = {kind: spans for kind, spans in classes.items() if len(spans)}
    spec: dict[str, Any] = {
        "label": label,
        "classes": list(used),
        "bins": [packed(shares(spans, start, end, bins), "u1") for spans in used.values()],
    }
    if singles is not None and len(singles.start):
        spec |= {
            "start": packed(_units(singles.start - start, end - start), "u4", delta=True),
            "length": packed(_units(singles.duration, end - start), "u4"),
            "name": packed(singles.name, "u4" if singles.name.max() > 65535 else "u2"),
            "kind": packed(singles.kind, "u1"),
            "all": singles.all,
            "of": singles.of,
        }
    return spec


def unit_ns(length: int) -> int:
    """The unit in which times of a timeline of `length` ns fit 32 bits."""
    return max(1, -(-length // (2**32 - 1)))


def _units(times: I64, length: int) -> I64:
    return np.clip(times // unit_ns(length), 0, 2**32 - 1)


def names_of(strings: Sequence[str], used: I64, width: int) -> tuple[list[str], I64]:
    """The texts of the interned names `used`, each once, and each one's index among them."""
    from gpuperf_analyzers.display import short_names

    distinct, index = np.unique(used, return_inverse=True)
    full = [strings[i] if i >= 0 else "" for i in distinct.tolist()]
    return short_names(full, width) if full else [], index.astype(np.int64)
