"""Memory against batch size: ``memory = model + batch x per_sample``, and the largest that fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpuperf_analyzers.display import show
from gpuperf_analyzers.fit_error import FitError

LINEAR = 0.01
"""Largest share by which a point may lie off the line for memory to be called linear."""


@dataclass(frozen=True, slots=True)
class BatchFit:
    """A line through peaks of memory at several batch sizes, by least squares.

    Attributes
    ----------
    sizes, peak_bytes
        What was measured.
    model_bytes
        The line at batch size 0: parameters, gradients, optimizer state, and what else does not
        grow with the batch.
    per_sample_bytes
        The line's slope.
    r_squared
        Share of the variance that the line explains; 1.0 where it goes through every point.
    worst_error
        Largest distance of a point from the line, as a share of the point.
    capacity_bytes, capacity_source
        The device's memory that a step may use, and where that is known from.
    out_of_memory
        The size at which memory ran out; it and larger ones have no point. None where none did.
    """

    sizes: tuple[int, ...]
    peak_bytes: tuple[int, ...]
    model_bytes: float
    per_sample_bytes: float
    r_squared: float
    worst_error: float
    capacity_bytes: int | None = None
    capacity_source: str = ""
    out_of_memory: int | None = None

    @property
    def linear(self) -> bool:
        """Whether every point lies within 1% of the line, and the line rises."""
        return self.worst_error <= LINEAR and self.per_sample_bytes > 0

    @property
    def largest_batch(self) -> int | None:
        """The largest batch size whose memory on the line is within the device's.

        0 where not even the model fits. None where the capacity is not known or memory is not
        linear in the batch: what lies beyond the measured sizes is not known then.
        """
        if self.capacity_bytes is None or not self.linear:
            return None
        # The points may lie above the line by as much as they were seen to.
        room = self.capacity_bytes / (1 + self.worst_error) - self.model_bytes
        most = max(0, math.floor(room / self.per_sample_bytes))
        return most if self.out_of_memory is None else min(most, self.out_of_memory - 1)

    def at(self, batch: float) -> float:
        """Bytes of `batch` samples on the line."""
        return self.model_bytes + batch * self.per_sample_bytes

    def to_json(self) -> dict[str, Any]:
        """The fit as plain JSON types."""
        return {**asdict(self), "linear": self.linear, "largest_batch": self.largest_batch}

    def __str__(self) -> str:
        line = (
            f"memory = {_bytes(self.model_bytes)} + batch x {_bytes(self.per_sample_bytes)} "
            f"(R² {self.r_squared:.6f}, points within {show(self.worst_error, 'fraction')} of it, "
            f"{len(self.sizes)} sizes from {self.sizes[0]} to {self.sizes[-1]})"
        )
        if self.out_of_memory is not None:
            line += f"; memory ran out at size {self.out_of_memory}"
        if self.capacity_bytes is None:
            return line
        room = f"{_bytes(self.capacity_bytes)} ({self.capacity_source})"
        if not self.linear:
            return f"{line}; not linear in the batch, so no largest one for {room} is told"
        return f"{line}; largest batch that fits {room}: {self.largest_batch:,}"


def _bytes(value: float) -> str:
    return show(value, "bytes")


def _share(error: float, peak: int) -> float:
    return abs(error) / peak if peak else math.inf


def fit_line(
    sizes: Sequence[int],
    peak_bytes: Sequence[int],
    *,
    capacity_bytes: int | None = None,
    capacity_source: str = "",
) -> BatchFit:
    """The line through `peak_bytes` at `sizes`.

    Raises
    ------
    FitError
        Fewer than two different sizes, or not one peak for each.
    """
    if len(sizes) != len(peak_bytes) or len(set(sizes)) < 2:
        raise FitError("gpuperf: a line of memory over batch takes two different sizes or more")
    n = len(sizes)
    mean_x, mean_y = math.fsum(sizes) / n, math.fsum(peak_bytes) / n
    spread = math.fsum((x - mean_x) ** 2 for x in sizes)
    pairs = list(zip(sizes, peak_bytes, strict=True))
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in pairs) / spread
    base = mean_y - slope * mean_x
    errors = [y - (base + slope * x) for x, y in pairs]
    whole = math.fsum((y - mean_y) ** 2 for y in peak_bytes)
    explained = 1.0 - math.fsum(e * e for e in errors) / whole if whole else 1.0
    return BatchFit(
        sizes=tuple(sizes),
        peak_bytes=tuple(peak_bytes),
        model_bytes=base,
        per_sample_bytes=slope,
        r_squared=explained,
        worst_error=max(_share(e, y) for e, y in zip(errors, peak_bytes, strict=True)),
        capacity_bytes=capacity_bytes,
        capacity_source=capacity_source,
    )
