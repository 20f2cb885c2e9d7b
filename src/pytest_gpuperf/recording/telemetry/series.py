"""Sampled values with their times."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence


class Series:
    """One counter's readings: times in ns since the epoch, and values, in the order taken."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: array[int] = array("q")
        self.values: array[float] = array("d")

    def add(self, at_ns: int, value: float) -> None:
        """Keep one reading."""
        self.times.append(at_ns)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        # A reader may look while the sampler writes: the time is appended first.
        for index in range(len(self.values)):
            yield self.times[index], self.values[index]

    def since(self, begin_ns: int) -> list[float]:
        """The values read at `begin_ns` or later."""
        return [value for at, value in self if at >= begin_ns]


def summarized(
    values: Sequence[float], aggregate: Callable[[Sequence[float]], float]
) -> dict[str, float]:
    """``{"value", "n", "min", "max"}`` of at least one value."""
    return {
        "value": float(aggregate(values)),
        "n": float(len(values)),
        "min": float(min(values)),
        "max": float(max(values)),
    }
