"""Every allocation of some steps given a category, and summed over time.

What is known of an allocation decides, in this order: an identity that was seen while it lived (it
was a parameter's gradient, an optimizer's state, a parameter); the optimizer's or the backward
pass that made it (temporary: gradients of activations too, which end with the pass); a forward
pass that made it from parameters, and that it was alive when the next backward pass began
(activation); that it was not made from parameters, and something made from them read it (input).
The rest is temporary. Memory older than the steps without an identity is an input where a forward
pass read it, and unknown where nothing did.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.memory_block import CATEGORIES, Cause, MemoryBlock

Phase = Literal["forward", "backward", "optimizer"]
I64 = npt.NDArray[np.int64]
_MOST_MOMENTS = 240
_MOST_CAUSES = 50
_NAMED = 5
_INDEX = {name: index for index, name in enumerate(CATEGORIES)}


@dataclass(frozen=True, slots=True)
class Held:
    """Memory that was alive before the steps; ``category`` is None where no identity is known."""

    address: int
    bytes: int
    category: str | None
    where: str


@dataclass(slots=True)
class Event:
    """An allocation (``bytes`` above 0) or the end of one (below).

    Attributes
    ----------
    from_parameters
        Whether it was made from parameters, by whatever many ops.
    read_by_model
        Whether an op that works on what is made from parameters read it; set while it is alive.
    """

    time_ns: int
    address: int
    bytes: int
    phase: Phase = "forward"
    where: str = ""
    from_parameters: bool = True
    read_by_model: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of the steps.

    Attributes
    ----------
    begin_ns
        When they began.
    held
        What was alive then.
    read
        Addresses of it that forward passes read.
    events
        In order of time.
    backward_ns
        When nodes of backward passes began, in order.
    seen
        Identities seen at moments (ns): category and place by address.
    """

    begin_ns: int
    held: Sequence[Held]
    events: Sequence[Event]
    read: frozenset[int] = frozenset()
    backward_ns: Sequence[int] = ()
    seen: Sequence[tuple[int, Mapping[int, tuple[str, str]]]] = field(default_factory=tuple)


@dataclass(slots=True)
class _Life:
    """One piece of memory: from after which event to which (the number of events: never)."""

    born: int
    died: int
    born_ns: int
    died_ns: float
    address: int
    bytes: int
    category: str
    where: str


def categorized(recorded: Recorded) -> MemoryBlock:
    """Memory by category over the recorded steps."""
    lives = _lives(recorded)
    changes = np.zeros((len(recorded.events) + 2, len(CATEGORIES)), dtype=np.int64)
    for life in lives:
        column = _INDEX[life.category]
        changes[life.born + 1, column] += life.bytes
        changes[life.died + 1, column] -= life.bytes
    # Row 0 is before the first event, row i+1 after event i; the last row ends what never ends.
    series = np.cumsum(changes, axis=0)[:-1]
    total = series.sum(axis=1)
    top = int(np.argmax(total))
    times = [recorded.begin_ns, *(e.time_ns for e in recorded.events)]
    kept = _moments(total, top)
    at_largest: list[Cause] = []
    for name, column in _INDEX.items():
        row = int(np.argmax(series[:, column]))
        of_it = (life for life in _alive(lives, row) if life.category == name)
        at_largest += _causes(of_it)[:_NAMED]
    return MemoryBlock(
        start_bytes=int(total[0]),
        peak_bytes=int(total[top]),
        at_peak=_by_category(series[top]),
        largest=_by_category(series.max(axis=0)),
        time_us=tuple(max(0, times[i] - recorded.begin_ns) / 1e3 for i in kept),
        over_time={name: tuple(series[kept, column].tolist()) for name, column in _INDEX.items()},
        causes=_causes(_alive(lives, top)),
        at_largest=tuple(at_largest),
    )


def _alive(lives: Iterable[_Life], row: int) -> Iterator[_Life]:
    return (life for life in lives if life.born < row <= life.died)


def _causes(lives: Iterable[_Life]) -> tuple[Cause, ...]:
    return causes_of((life.category, life.where, life.bytes) for life in lives)


def causes_of(rows: Iterable[tuple[str, str, int]]) -> tuple[Cause, ...]:
    """Rows of category, place and bytes summed by category and place, the most bytes first."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for category, where, size in rows:
        row = sums[category, where]
        row[0] += size
        row[1] += 1
    found = (Cause(*key, *sum_) for key, sum_ in sums.items())
    return tuple(sorted(found, key=lambda c: (-c.bytes, c.category, c.where)))[:_MOST_CAUSES]


def _by_category(row: I64) -> dict[str, int]:
    return dict(zip(CATEGORIES, row.tolist(), strict=True))


def _moments(total: I64, top: int) -> list[int]:
    """Rows to keep: of each stretch the one with the most memory, first, last and peak."""
    if len(total) <= _MOST_MOMENTS:
        return list(range(len(total)))
    parts = np.array_split(np.arange(len(total)), _MOST_MOMENTS - 3)
    largest = {int(part[np.argmax(total[part])]) for part in parts}
    return sorted(largest | {0, top, len(total) - 1})


def _lives(recorded: Recorded) -> list[_Life]:
    """Every piece of memory from its birth to its end, with its category."""
    end = len(recorded.events)
    lives: list[_Life] = []
    alive: dict[int, _Life] = {}
    for held in recorded.held:
        category = held.category or ("input" if held.address in recorded.read else "unknown")
        life = _Life(-1, end, recorded.begin_ns - 1, np.inf, held.address, held.bytes, category,
                     held.where)  # fmt: skip
        lives.append(life)
        alive[held.address] = life
    events: list[tuple[_Life, Event]] = []
    for index, event in enumerate(recorded.events):
        former = alive.pop(event.address, None)
        if former is not None:
            former.died, former.died_ns = index, event.time_ns
        if event.bytes > 0:
            life = _Life(index, end, event.time_ns, np.inf, event.address, event.bytes, "",
                         event.where)  # fmt: skip
            events.append((life, event))
            lives.append(life)
            alive[event.address] = life
    known = any(e.from_parameters for _, e in events if e.phase == "forward")
    for life, event in events:
        life.category = _category(life, event, recorded.backward_ns, known=known)
    _identify(lives, recorded.seen)
    return lives


def _category(life: _Life, event: Event, backward_ns: Sequence[int], *, known: bool) -> str:
    """Category of what the steps made, identities apart."""
    if event.phase != "forward":
        return "temporary"
    if known and not event.from_parameters:
        return "input" if event.read_by_model else "temporary"
    following = bisect_right(backward_ns, life.born_ns)
    held = following < len(backward_ns) and backward_ns[following] < life.died_ns
    return "activation" if held else "temporary"


def _identify(
    lives: Sequence[_Life], seen: Sequence[tuple[int, Mapping[int, tuple[str, str]]]]
) -> None:
    """Give what was seen with an identity while it lived that identity."""
    by_address: dict[int, list[_Life]] = defaultdict(list)
    for life in lives:
        by_address[life.address].append(life)
    for moment, identities in seen:
        for address, (category, where) in identities.items():
            for life in by_address.get(address, ()):
                if life.born_ns <= moment < life.died_ns:
                    life.category, life.where = category, where or life.where
