"""Two workloads timed in turn, so that what the machine does falls on both alike.

A sample is a block of four stretches, A B B A: each side's time is the mean of its two. A drift
that is linear over the block cancels, and neither side is always the one that comes second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import RecordingError
from pytest_gpuperf.recording.sampling import Samples, Sampling, Workload, warm_up

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording.coordination import Coordinator
    from pytest_gpuperf.recording.options import Options
    from pytest_gpuperf.recording.regions import RegionLog
    from pytest_gpuperf.recording.timers import Timer

Decided = Callable[[tuple[float, ...], tuple[float, ...]], bool]
"""Whether the limits are decided by the samples of the first workload and of the one beside it."""
_TIMERS = ("wall", "event")


@dataclass(slots=True)
class Beside:
    """The second workload of a pair.

    Attributes
    ----------
    workload
        What is called.
    value
        What its first call returned, once it was made.
    """

    workload: Workload
    value: object = None


def refuse_timer(timer: Timer) -> None:
    """Refuse a clock that cannot go to and fro between two workloads.

    Raises
    ------
    RecordingError
        It is not `wall` or `event`.
    """
    if timer.name not in _TIMERS:
        raise RecordingError(
            f"gpuperf: timer={timer.name!r} times one workload alone: two in turn take 'wall' or "
            "'event'"
        )


def paired_sampling(
    workload: Workload,
    beside: Beside,
    device: torch.device,
    timer: Timer,
    options: Options,
    coordinator: Coordinator,
    regions: RegionLog,
    decided: Decided | None,
) -> PairedSampling:
    """The sampling of both, the second one called once and warmed up.

    Parameters
    ----------
    workload
        The first one, warmed up already; regions are its own.
    beside
        The second one.
    device, timer, options, coordinator, regions
        As for a workload alone.
    decided
        Whether to stop.
    """
    from pytest_gpuperf.recording.timed_calls import timed_calls

    second = beside.workload
    if second.setup is not None:
        second.setup()
    beside.value = second.step()
    if second.teardown is not None:
        second.teardown()
    call_us = warm_up(second, timer, options.warmup_s, coordinator).call_us
    second = timed_calls(second, device, timer, options, call_us, coordinator).workload
    calls = max(1, int(timer.batch_us / max(call_us, 1e-3))) if second.plain else 1
    made = PairedSampling(workload, timer, options, coordinator, regions)
    made.pair(second, calls, decided)
    return made


class PairedSampling(Sampling):
    """Samples of a workload, each with one of the other, from the same few calls."""

    def pair(self, beside: Workload, calls: int, decided: Decided | None) -> None:
        """Set what is called beside, how often in a stretch, and what ends the sampling."""
        self._beside, self._beside_calls = beside, calls
        self._beside_us: list[float] = []
        if decided is not None:
            self._decided = lambda samples_us: decided(samples_us, tuple(self._beside_us))

    def run(self, call_us: float) -> Samples:
        """Sample until the stop rule holds for the ratio of each pair."""
        samples = super().run(call_us)
        return replace(
            samples,
            beside_us=tuple(self._beside_us),
            calls_per_sample=2 * samples.calls_per_sample,
        )

    def _narrow(self, samples: list[float], reach: float = 1.0) -> bool:
        """Whether the interval of the ratio is within the target."""
        if len(samples) != len(self._beside_us):
            return super()._narrow(samples, reach)
        ratios = [b / a for a, b in zip(samples, self._beside_us, strict=True) if a > 0]
        return bool(ratios) and super()._narrow(ratios, reach)

    def _round(self, size: int, deadline: float) -> list[float]:
        """`size` blocks, fewer where `deadline` passes; the other's times are kept beside."""
        timer, regions = self._timer, self._regions
        a = (self._workload, self._calls, True)
        b = (self._beside, self._beside_calls, False)
        regions.timing = False
        for workload, _, _ in (a, b):  # what the round before left in the caches counts for none
            workload()
        blocks: list[list[tuple[Any, Any]]] = []
        begin = perf_counter()
        for index in range(size):
            regions.sample = index
            blocks.append([self._stretch(*part) for part in (a, b, b, a)])
            if perf_counter() > deadline:
                break
        regions.timing = True
        issued = perf_counter()
        timer.synchronize()
        self._issued_s += issued - begin
        self._waited_s += perf_counter() - issued
        regions.flush(2 * self._calls)
        times = [[timer.elapsed_us(*marks) for marks in block] for block in blocks]
        self._beside_us += [(b1 + b2) / 2 / self._beside_calls for _, b1, b2, _ in times]
        return [(a1 + a2) / 2 / self._calls for a1, _, _, a2 in times]

    def _stretch(self, workload: Workload, calls: int, timed: bool) -> tuple[Any, Any]:
        """The marks around `calls` calls of `workload`; regions are `timed` in the first's."""
        timer, step = self._timer, workload.step
        if workload.setup is not None:
            workload.setup()
        self._regions.timing = timed
        start = timer.mark()
        for _ in repeat(None, calls):
            step()
        end = timer.mark()
        self._regions.timing = False
        if workload.teardown is not None:
            workload.teardown()
        return start, end
