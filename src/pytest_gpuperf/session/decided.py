"""Whether what was measured so far decides the limits, so that measuring may stop.

Both are asked while a recording is under way, and judge as the session does in the end. They are
objects rather than closures, since they travel to the ranks of a DDP measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuperf_analyzers.limits import Limit, Verdict, judge
from gpuperf_analyzers.metrics import MEMORY_LIMITS, TELEMETRY

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.hookspecs import Peak
    from gpuperf_analyzers.live_block import LiveBlock

_FROM_SAMPLES = frozenset(
    {
        "step_time", "step_time_p99", "throughput", "bandwidth", "speedup", "tflops", "mfu", "hfu",
        "mamf_share",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SamplesDecide:
    """Says of the samples so far, µs, whether each limit is met or missed by all of its interval.

    Attributes
    ----------
    limits
        Those on what is made of samples; those on the trace's events are not decided by more.
    peaks
        Dense peaks to look the device up in; a CPU's are in the block.
    """

    limits: tuple[Limit, ...]
    peaks: tuple[Peak, ...] = ()

    def __call__(self, samples_us: tuple[float, ...], block: LiveBlock) -> bool:
        """Whether no limit is still open; one that cannot be judged here is not waited for.

        Parameters
        ----------
        samples_us
            The samples.
        block
            What else is known: the device, FLOP, a CPU's peak, items.
        """
        from gpuperf_analyzers.live_values import live_values

        values = live_values(replace(block, samples_us=samples_us), peaks=self.peaks)
        judged = judge(
            values,
            self.limits,
            device_name=block.device,
            device_type=block.device_type,
            invalid={},
        )
        # Without an interval a value would be taken exactly: there are too few samples yet.
        return not any(
            j.verdict is Verdict.AMBIGUOUS
            or (j.verdict in (Verdict.PASS, Verdict.FAIL) and j.interval is None)
            for j in judged
        )


@dataclass(frozen=True, slots=True)
class TraceDecides:
    """Says of a trace whether no limit on what it shows is ambiguous.

    Attributes
    ----------
    limits
        Those on the trace's events.
    regions
        Limits by region; filled while the workload runs, and read after it has.
    """

    limits: tuple[Limit, ...]
    regions: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)

    def __call__(self, path: Path, config: Config | None) -> bool:
        """Whether more steps would change no verdict from AMBIGUOUS to another."""
        if not self.limits and not self.regions:
            return True
        from gpuperf_analyzers.analysis import analyze
        from gpuperf_analyzers.registry import load_config
        from gpuperf_analyzers.trace import read_trace
        from pytest_gpuperf.session.region_values import region_values

        config, trace = config or load_config(), read_trace(path)
        found = analyze(trace, config)
        judged = judge(
            found.values,
            self.limits,
            device_name=found.device_name,
            device_type=found.device_type,
            invalid=found.invalid,
        )
        for region, limits in self.regions.items():
            judged += judge(
                region_values(region, limits, blocks=(), traces=(trace,), config=config),
                limits,
                device_name=found.device_name,
                device_type=found.device_type,
                invalid=found.invalid,
            )
        return not any(j.verdict is Verdict.AMBIGUOUS for j in judged)


def samples_decide(limits: Iterable[Limit], peaks: Iterable[Peak]) -> SamplesDecide | None:
    """What to ask of the samples for `limits`; None where none of them is on samples."""
    of_samples = tuple(m for m in limits if m.metric in _FROM_SAMPLES and _bounds(m))
    return SamplesDecide(of_samples, tuple(peaks)) if of_samples else None


def trace_decides(
    limits: Iterable[Limit], steps: int, regions: Mapping[str, tuple[Limit, ...]] | None = None
) -> TraceDecides | None:
    """What to ask of a trace for `limits`; None where no verdict on it can be ambiguous.

    With too few steps for an interval a value is taken exactly. `regions` may be filled later.
    """
    from gpuperf_analyzers.own_trace import FEWEST_STEPS_FOR_AN_INTERVAL

    elsewhere = _FROM_SAMPLES | TELEMETRY | MEMORY_LIMITS
    of_trace = tuple(m for m in limits if m.metric not in elsewhere and _bounds(m))
    if steps < FEWEST_STEPS_FOR_AN_INTERVAL or (not of_trace and regions is None):
        return None
    return TraceDecides(of_trace, {} if regions is None else regions)


def _bounds(limit: Limit) -> bool:
    return limit.direction in ("min", "max")
