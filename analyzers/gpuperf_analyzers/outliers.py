"""Steps that took longer than the others: which, by how much, and in what part of the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import stats
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.thresholds import Thresholds
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.model import Trace
from gpuperf_analyzers.trace.parts import Part, PartTimes, host_meanwhile, part_times
from gpuperf_analyzers.trace.steps import steps

if TYPE_CHECKING:
    import pandas as pd

NO_STEPS = "the trace has no ProfilerStep annotation"
_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, of normally distributed samples."""


@dataclass(frozen=True, slots=True)
class SlowStep:
    """One step that stands out.

    ``excess_us`` is its time less the median step's, ``excess`` the same as a share of the median.
    ``part`` is the part that grew most over its own median, by ``part_us``; ``grown`` holds every
    part that grew, the most first. The parts of one step add up to it, but medians do not add up:
    the growths are near the excess, not equal to it.
    """

    name: str
    index: int
    step_time_us: float
    excess_us: float
    excess: float
    part: Part
    part_us: float
    grown: tuple[tuple[Part, float], ...]


@dataclass(frozen=True, slots=True)
class OutliersResult:
    """The parts of each step of one device, and the steps that stand out.

    A step stands out that is longer than the median by both the share ``slow_step`` and
    ``slow_step_noise`` times the spread below the median. ``parts`` has one row a step, or one of
    the window without steps.
    """

    device: Device
    stepped: bool
    parts: tuple[PartTimes, ...]
    median_us: float | None
    slow: tuple[SlowStep, ...]
    """The longest first."""
    host_meanwhile: tuple[tuple[str, int], ...]
    """What the host ran while a GPU waited for it to issue work, ns in all, the most first."""
    enough: bool
    """Whether the steps are enough to tell one that stands out."""

    def metrics(self) -> Iterator[Value]:
        """``slow_steps`` and ``slowest_step``."""
        if not self.stepped or not self.enough:
            why = NO_STEPS if not self.stepped else f"{len(self.parts)} steps are too few to tell"
            yield absent("slow_steps", why)
            yield absent("slowest_step", why)
            return
        source = f"of {len(self.parts)} steps of the trace, under the profiler"
        names = ", ".join(s.name for s in sorted(self.slow, key=lambda s: s.index))
        yield Value("slow_steps", float(len(self.slow)), source=source, at=names)
        median = self.median_us or 0.0
        longest = max(self.parts, key=lambda p: p.length_ns)
        if median <= 0:
            yield absent("slowest_step", "the median step has no length")
        else:
            share = longest.length_ns / 1e3 / median - 1
            yield Value("slowest_step", share, source=source, at=longest.name)

    def share(self, *parts: Part) -> float:
        """Time of these parts over all steps / time of all steps; 0 where there is no time."""
        length = sum(p.length_ns for p in self.parts)
        return sum(p.total(*parts) for p in self.parts) / length if length else 0.0

    def to_frame(self) -> pd.DataFrame:
        """One row a step (or of the window): its time, each part in µs, whether it stands out."""
        import pandas as pd

        slow = {s.name for s in self.slow}
        return pd.DataFrame(
            [
                {
                    "step": p.name,
                    "time_us": p.length_ns / 1e3,
                    **{part.value: p.by_part[part] / 1e3 for part in Part},
                    "slow": p.name in slow,
                }
                for p in self.parts
            ]
        )


def analyze(trace: Trace, config: Config, device: Device) -> OutliersResult:
    """The steps of `device`, and those that stand out.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    stepped = bool(steps(trace, device, config))
    parts = part_times(trace, device, config)
    limits = config.thresholds
    enough = stepped and len(parts) >= limits.fewest_steps
    times = [p.length_ns / 1e3 for p in parts]
    return OutliersResult(
        device=device,
        stepped=stepped,
        parts=parts,
        median_us=stats.median(times) if stepped else None,
        slow=slow_steps(parts, limits) if enough else (),
        host_meanwhile=() if device == "cpu" else host_meanwhile(trace, device, config),
        enough=enough,
    )


def slow_steps(parts: Sequence[PartTimes], limits: Thresholds) -> tuple[SlowStep, ...]:
    """The steps that stand out, the longest first."""
    times = np.array([p.length_ns for p in parts], dtype=np.float64)
    median = float(np.median(times))
    below = median - times[times <= median]
    spread = _TO_SIGMA * float(np.median(below))
    least = max(limits.slow_step * median, limits.slow_step_noise * spread)
    usual = {part: float(np.median([p.by_part[part] for p in parts])) for part in Part}
    found = []
    for i in np.flatnonzero((times - median > 0) & (times - median >= least)).tolist():
        grown = sorted(
            ((part, (parts[i].by_part[part] - usual[part]) / 1e3) for part in Part),
            key=lambda pair: -pair[1],
        )
        excess = float(times[i]) - median
        found.append(
            SlowStep(
                parts[i].name, i, float(times[i]) / 1e3, excess / 1e3,
                excess / median if median else float("inf"), *grown[0],
                tuple(pair for pair in grown if pair[1] > 0),
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda s: -s.step_time_us))
