"""The fastest shape of a grid, found while timing few of its shapes.

1. *Coarse*: a quarter of the budget goes to shapes spread over the grid, large ones first.
2. *Fine*: the rest goes, in rounds, to shapes that the surrogate (:mod:`.surrogate`) expects most
   of, to those that may surprise, and to untimed neighbours of the best.
3. *Halving*: the best are timed again with more calls each round and fewer of them left, the last
   few in turn, and the highest median of these last calls wins. Chosen by fresh calls, it is not
   the luckiest of many noisy ones.

Pure: knows no torch and no clock, only ``time(shape, calls)``. With the same answers it asks the
same questions, which is what resuming rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from pytest_gpuperf.mamf.ranges import Grid, Shape
from pytest_gpuperf.mamf.surrogate import Surrogate

Time = Callable[[Shape, int], Sequence[float]]
"""Seconds of each of so many calls of a shape; empty where it cannot be run."""

SHARE = 0.02
"""Most shapes of a grid that are timed, as a share."""
WHOLE = 128
"""A grid of so many shapes or fewer is timed whole."""
FEWEST, MOST = 20, 768
"""Bounds of the number of shapes timed, where :data:`SHARE` would be less or more."""
_COARSE = 0.25
_ROUNDS = 12
_CANDIDATES = 40_000
_BEST_AROUND = 3


@dataclass(frozen=True, slots=True)
class Effort:
    """Timed calls of a shape.

    Attributes
    ----------
    first
        When it is tried.
    last
        Of each finalist; between the two they double.
    """

    first: int = 10
    last: int = 100


@dataclass(slots=True)
class Tried:
    """One shape and the calls of it: all, and those of the latest stage."""

    shape: Shape
    seconds: list[float] = field(default_factory=list)
    latest: list[float] = field(default_factory=list)

    @property
    def flop(self) -> int:
        """2·M·N·K."""
        m, n, k = self.shape
        return 2 * m * n * k

    @property
    def rate(self) -> float:
        """FLOP a second by the median of the latest stage; 0 where it could not be run."""
        return self.flop / median(self.latest) if self.latest else 0.0


def budget(shapes: int, *, exhaustive: bool = False) -> int:
    """How many of a grid's shapes are timed: 2% of them, within bounds."""
    if exhaustive or shapes <= WHOLE:
        return shapes
    return max(FEWEST, min(MOST, int(shapes * SHARE)))


class Search:
    """One search; :attr:`tried` can be read at any moment, even after it was interrupted."""

    def __init__(
        self,
        time: Time,
        grid: Grid,
        *,
        units: int | None = None,
        effort: Effort | None = None,
        exhaustive: bool = False,
        seed: int = 0,
        seen: Callable[[Search], None] = lambda _: None,
    ) -> None:
        """Prepare a search; nothing is timed yet.

        Parameters
        ----------
        time
            Times a shape.
        grid
            Where to search.
        units
            Multiprocessors of the device, for the waves that tiles make; None on a CPU.
        effort
            Calls of a shape.
        exhaustive
            Try every shape instead.
        seed
            Of the choice of shapes.
        seen
            Called after each timing, for a progress bar.
        """
        import numpy as np

        self._time = time
        self._grid = grid
        self._units = units
        self._effort = effort or Effort()
        self._random = np.random.default_rng(seed)
        self._seen = seen
        self.budget = budget(len(grid), exhaustive=exhaustive)
        self.tried: dict[int, Tried] = {}
        self.finalists: list[Tried] = []
        self._first_best: Tried | None = None
        self.timings = 0
        self.calls = 0

    @property
    def planned(self) -> int:
        """Timings that a whole search makes."""
        return self.budget + sum(
            count * turns for count, _, turns in _stages(self.budget, self._effort)
        )

    @property
    def best(self) -> Tried | None:
        """The best so far: of the finalists where there are some, else of all."""
        ran = [t for t in self.finalists if t.latest]
        return max(ran, key=lambda t: t.rate, default=self._first_best)

    def run(self) -> Tried | None:
        """Search to the end; None where no shape could be run."""
        if self.budget >= len(self._grid):
            self._try(range(len(self._grid)))
        else:
            self._coarse(max(8, int(_COARSE * self.budget)))
            self._fine()
        self._halve()
        return self.best

    def _try(self, indices: Iterable[int]) -> None:
        """Time shapes for the first time."""
        for index in indices:
            if index in self.tried or len(self.tried) >= self.budget:
                continue
            tried = Tried(self._grid.at(index))
            self._call(tried, self._effort.first, fresh=True)
            # Only now: one that was interrupted is not among those timed.
            self.tried[index] = tried
            if tried.rate > (self._first_best.rate if self._first_best else 0.0):
                self._first_best = tried
            self._seen(self)

    def _call(self, tried: Tried, calls: int, *, fresh: bool) -> None:
        taken = list(self._time(tried.shape, calls))
        self.timings += 1
        self.calls += len(taken)
        tried.seconds += taken
        tried.latest = taken if fresh else tried.latest + taken

    def _coarse(self, count: int) -> None:
        """Shapes spread evenly (a Halton sequence), denser towards the large end."""
        sizes = [len(axis) for axis in self._grid.axes]
        shift = self._random.random(3)
        wanted = [len(self._grid) - 1]
        for i in range(1, 4 * count):
            points = [(_halton(i, base) + s) % 1 for base, s in zip((2, 3, 5), shift, strict=True)]
            # The square root of a uniform number is denser near 1.
            im, in_, ik = (
                min(size - 1, int(p**0.5 * size)) for p, size in zip(points, sizes, strict=True)
            )
            wanted.append((im * sizes[1] + in_) * sizes[2] + ik)
        self._try(list(dict.fromkeys(wanted))[:count])

    def _fine(self) -> None:
        step = max(1, (self.budget - len(self.tried)) // _ROUNDS)
        while len(self.tried) < self.budget:
            before = len(self.tried)
            self._try(self._promising(min(step, self.budget - before)))
            if len(self.tried) == before:  # every candidate was tried
                left = (i for i in range(len(self._grid)) if i not in self.tried)
                self._try([i for _, i in zip(range(step), left, strict=False)])

    def _promising(self, count: int) -> list[int]:
        """`count` untimed shapes: half expected to be best, then surprises and neighbours."""
        import numpy as np

        ran = [t for t in self.tried.values() if t.latest]
        around = self._around_best()
        candidates = [i for i in self._candidates(around) if i not in self.tried]
        if not ran or not candidates:
            return candidates[:count]
        surrogate = Surrogate([t.shape for t in ran], [t.rate for t in ran], self._units)
        means, deviations = surrogate.guess([self._grid.at(i) for i in candidates])
        expected = [candidates[i] for i in np.argsort(-means, kind="stable")]
        surprises = [candidates[i] for i in np.argsort(-(means + deviations), kind="stable")]
        return _in_turn(count, expected, expected, surprises, around)

    def _candidates(self, around: Sequence[int]) -> list[int]:
        """All shapes of a small grid, else a random part of it and what is near the best."""
        total = len(self._grid)
        if total <= _CANDIDATES:
            return list(range(total))
        drawn = self._random.choice(total, _CANDIDATES, replace=False).tolist()
        return list(dict.fromkeys([*around, *drawn]))

    def _around_best(self) -> list[int]:
        """Untimed neighbours of the best shapes, one and two steps along each side."""
        leading = sorted(self.tried.items(), key=lambda item: -item[1].rate)[:_BEST_AROUND]
        _, n, k = (len(axis) for axis in self._grid.axes)
        found: dict[int, None] = {}
        for index, _ in leading:
            place = (index // (n * k), index // k % n, index % k)
            for axis, length in enumerate(len(a) for a in self._grid.axes):
                for by in (1, -1, 2, -2):
                    moved = list(place)
                    moved[axis] += by
                    if 0 <= moved[axis] < length:
                        found[(moved[0] * n + moved[1]) * k + moved[2]] = None
        return [i for i in found if i not in self.tried]

    def _halve(self) -> None:
        """Time the best again, more calls and fewer shapes each stage."""
        left = sorted((t for t in self.tried.values() if t.latest), key=lambda t: -t.rate)
        for count, calls, turns in _stages(self.budget, self._effort):
            left = left[:count]
            fresh = {id(t) for t in left}
            for _ in range(turns):
                for tried in left:
                    self._call(tried, calls, fresh=id(tried) in fresh)
                    fresh.discard(id(tried))
                    self._seen(self)
            # Only now are all of them of one stage, and comparable.
            left = self.finalists = sorted((t for t in left if t.latest), key=lambda t: -t.rate)


def _stages(tried: int, effort: Effort) -> list[tuple[int, int, int]]:
    """Finalists, calls of a turn and turns, of each stage after the first."""
    stages = []
    count, calls = max(4, min(24, tried // 8)), effort.first * 2
    while calls < effort.last and count > 4:
        stages.append((min(count, tried), calls, 1))
        count, calls = max(4, count // 2), calls * 2
    turns = 4 if effort.last >= 40 else 1
    stages.append((min(4, tried), -(-effort.last // turns), turns))
    return stages


def _halton(index: int, base: int) -> float:
    """The `index`-th number of the van der Corput sequence of `base`."""
    value, share = 0.0, 1.0
    while index:
        index, digit = divmod(index, base)
        share /= base
        value += digit * share
    return value


def _in_turn(count: int, *rows: Sequence[int]) -> list[int]:
    """`count` different items, one of each row in turn."""
    chosen: dict[int, None] = {}
    iterators = [iter(row) for row in rows]
    while len(chosen) < count and iterators:
        for iterator in list(iterators):
            item = next((x for x in iterator if x not in chosen), None)
            if item is None:
                iterators.remove(iterator)
            elif len(chosen) < count:
                chosen[item] = None
    return list(chosen)
