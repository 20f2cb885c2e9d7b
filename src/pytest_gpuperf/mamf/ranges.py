"""The shapes to search: ranges of M, N and K, and the ranges that others published.

A matmul here is (M×K)·(K×N): K is the dimension that is summed over. Ranges are end-exclusive and
0 is skipped, so ``0 5376 256`` is 256, 512, …, 5120: 20 values, and three of them 8,000 shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

Shape = tuple[int, int, int]
"""M, N, K."""
LARGEST = 1 << 20
"""Longest side: two such operands are beyond any device's memory."""
MOST_SHAPES = 4_000_000
"""Shapes of a grid: beyond, the list itself is slow and large."""


class RangeError(ValueError):
    """A range that cannot be understood: one line with the mend."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Every combination of the values of M, N and K.

    Attributes
    ----------
    m, n, k
        The values of each side, ascending; K is reduced.
    name
        Preset that it came from, ``"ranges"`` where the user named the ranges.
    changed
        What was changed of the preset for this device, in words; "" where nothing was.
    """

    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    name: str = "ranges"
    changed: str = ""

    def __len__(self) -> int:
        return len(self.m) * len(self.n) * len(self.k)

    @property
    def axes(self) -> tuple[tuple[int, ...], ...]:
        """The values of M, of N and of K."""
        return self.m, self.n, self.k

    def at(self, index: int) -> Shape:
        """The shape at `index`, K running fastest."""
        left, ik = divmod(index, len(self.k))
        im, in_ = divmod(left, len(self.n))
        return self.m[im], self.n[in_], self.k[ik]

    def words(self) -> str:
        """The grid in one line."""
        sides = (f"{name} {_words(axis)}" for name, axis in zip("MNK", self.axes, strict=True))
        return f"{', '.join(sides)}: {len(self):,} shape{'s' * (len(self) != 1)}"


def _words(axis: Sequence[int]) -> str:
    if len(axis) == 1:
        return str(axis[0])
    return f"{axis[0]} to {axis[-1]} by {axis[1] - axis[0]}"


def values(start: int, stop: int, step: int, option: str = "range") -> tuple[int, ...]:
    """``range(start, stop, step)`` without 0.

    Raises
    ------
    RangeError
        The range is empty, descends, or has sides that are negative or too long.
    """
    written = f"{option} {start} {stop} {step}"
    if step < 1 or start < 0 or stop <= start:
        raise RangeError(f"{written}: write START STOP STEP, 0 <= START < STOP and STEP >= 1")
    if stop - 1 > LARGEST:
        raise RangeError(f"{written}: a side is at most {LARGEST:,}")
    found = tuple(x for x in range(start, stop, step) if x)
    if not found:
        raise RangeError(f"{written}: no value is left, for STOP is excluded and 0 skipped")
    return found


def one(side: int, option: str) -> tuple[int, ...]:
    """A single value of a side.

    Raises
    ------
    RangeError
        It is not from 1 to :data:`LARGEST`.
    """
    if not 1 <= side <= LARGEST:
        raise RangeError(f"{option} {side}: a side is from 1 to {LARGEST:,}")
    return (side,)


def make_grid(m: Sequence[int], n: Sequence[int], k: Sequence[int]) -> Grid:
    """The grid of the user's own ranges.

    Raises
    ------
    RangeError
        It has too many shapes.
    """
    grid = Grid(tuple(m), tuple(n), tuple(k))
    if len(grid) > MOST_SHAPES:
        raise RangeError(f"{len(grid):,} shapes are more than {MOST_SHAPES:,}: take a larger STEP")
    return grid


_TO_5376 = values(0, 5376, 256)
_TO_20480 = values(0, 20480, 256)
PRESETS: dict[str, Grid] = {
    "quick": Grid(_TO_20480, (4096,), (4096,), "quick"),
    "a100": Grid(_TO_5376, _TO_5376, _TO_5376, "a100"),
    "mi300x": Grid(_TO_5376, _TO_5376, _TO_5376, "mi300x"),
    "h100": Grid(_TO_20480, _TO_20480, _TO_20480, "h100"),
}
"""Ranges that were published with results for these devices; quick is one line of them."""

_QUICK_ON_A_CPU = Grid(values(0, 1280, 64), (512,), (512,), "quick")


def preset(name: str, *, on_cpu: bool) -> Grid:
    """The grid of a preset; on a CPU a smaller one stands for ``quick``, and says so."""
    if name == "quick" and on_cpu:
        was, now = PRESETS["quick"], _QUICK_ON_A_CPU
        return replace(now, changed=f"on a CPU quick is {now.words()} (on a GPU {was.words()})")
    return PRESETS[name]
