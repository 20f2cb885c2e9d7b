"""Warm-up by time, then samples in rounds until the median is known well enough.

Every count that depends on time is decided by rank 0 and shared between rounds
(:mod:`.coordination`), so that all ranks call the workload equally often.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from math import inf
from time import perf_counter, time_ns
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.coordination import Coordinator, share_count
from pytest_gpuperf.recording.turns import SLICES, Turns, turns
from pytest_gpuperf.recording.watching import tell

if TYPE_CHECKING:
    from pytest_gpuperf.recording.options import Options
    from pytest_gpuperf.recording.regions import RegionLog
    from pytest_gpuperf.recording.timers import Timer

_WARMUP_ROUNDS = 8
_SAMPLE_ROUNDS = 16
_ROUND_LIMIT = 256
_DRIFT = 0.05
_STOPS = ("interval", "noise", "max_time", "samples")
_SETTLED = 0.05
_QUEUE_EMPTY = 0.01
_SETTLED_SAMPLES = 64


@dataclass(frozen=True, slots=True)
class Workload:
    """One call of the workload, with what happens before and after it outside the clock."""

    step: Callable[[], object]
    setup: Callable[[], object] | None = None
    teardown: Callable[[], object] | None = None

    @property
    def plain(self) -> bool:
        """Whether calls can follow each other directly."""
        return self.setup is None and self.teardown is None

    def __call__(self) -> object:
        """One untimed call, set up and torn down."""
        if self.setup is not None:
            self.setup()
        value = self.step()
        if self.teardown is not None:
            self.teardown()
        return value


@dataclass(frozen=True, slots=True)
class Warmup:
    """What was spent before the first sample, and what it told of the workload."""

    calls: int
    elapsed_us: float
    call_us: float
    """Time of one call in the last round, setup and teardown included."""
    steady: bool
    """False where calls were still getting faster when twice the time was spent."""


def warm_up(workload: Workload, timer: Timer, seconds: float, coordinator: Coordinator) -> Warmup:
    """Call `workload` for `seconds`, for up to twice as long while it still gets faster.

    At least one call is made. Rounds grow as the workload is known better; the time of a round
    against the one before tells whether it is steady (5%).
    """
    calls, size = 0, 1
    rates: list[float] = []
    begin = perf_counter()
    while size:
        start = perf_counter()
        # Alone, a round that takes longer than thought is cut short; ranks keep to its size.
        deadline = begin + 2 * seconds if coordinator.world_size == 1 else inf
        done = 0
        while done < size:
            workload()
            done += 1
            if perf_counter() > deadline:
                break
        timer.synchronize()
        now = perf_counter()
        calls += done
        rates.append((now - start) / done)
        left = seconds * (1 if _steady(rates) else 2) - (now - begin)
        wanted = max(1.0, seconds / _WARMUP_ROUNDS / max(rates[-1], 1e-9)) if left > 0 else 0.0
        size = share_count(coordinator, wanted)
    elapsed = perf_counter() - begin
    return Warmup(calls, elapsed * 1e6, rates[-1] * 1e6, _steady(rates))


def _steady(rates: list[float]) -> bool:
    """Whether the last round was not much faster than the one before; one round cannot tell."""
    return len(rates) < 2 or rates[-1] > rates[-2] * (1 - _DRIFT)


@dataclass(frozen=True, slots=True)
class Round:
    """When a round of samples that followed each other was taken, in ns since the epoch."""

    begin_ns: int
    end_ns: int
    count: int


@dataclass(frozen=True, slots=True)
class Samples:
    """Every sample taken, in order, and why there are no more."""

    us: tuple[float, ...]
    stop: str
    """``interval``, ``noise``, ``max_time`` or ``samples``."""
    calls_per_sample: int
    host_bound: bool = False
    """Whether a timer that keeps the device's queue full found it empty when the host was done."""
    rounds: tuple[Round, ...] = ()
    """The rounds that the samples came in, in order; empty where they were not timed in rounds."""
    beside_us: tuple[float, ...] = ()
    """Times of another workload, one for each of ``us``, where one was timed in turn with it."""


class Sampling:
    """Takes the samples of one workload; one instance a recording."""

    def __init__(
        self,
        workload: Workload,
        timer: Timer,
        options: Options,
        coordinator: Coordinator,
        regions: RegionLog,
        decided: Callable[[tuple[float, ...]], bool] | None = None,
    ) -> None:
        self._workload = workload
        self._timer = timer
        self._options = options
        self._coordinator = coordinator
        self._regions = regions
        self._decided = decided
        self._calls = 1
        self._noise: list[tuple[int, float]] = []
        self._issued_s = self._waited_s = 0.0

    def run(self, call_us: float) -> Samples:
        """Sample until the stop rule of :meth:`_next_round` holds.

        Parameters
        ----------
        call_us
            Time of one warmed-up call.
        """
        if self._workload.plain:
            # Short calls are timed together; a sample is their mean.
            wanted = max(1.0, self._timer.batch_us / max(call_us, 1e-3))
            self._calls = share_count(self._coordinator, wanted)
        # What the stop rule imports is imported before the clock runs.
        self._narrow([1.0] * self._options.min_samples)
        sample_s = max(call_us * self._calls, 1e-3) / 1e6
        in_turns = turns() if self._coordinator.world_size == 1 else None
        if in_turns is not None:
            return self._slices(in_turns, sample_s)
        samples: list[float] = []
        rounds: list[Round] = []
        begin = perf_counter()
        self._regions.timing = True
        try:
            while True:
                stop, wanted = "", 0.0
                if self._coordinator.rank == 0:
                    stop, wanted = self._next_round(samples, perf_counter() - begin, sample_s)
                size = share_count(self._coordinator, wanted)
                if not size:
                    return Samples(
                        tuple(samples), self._shared_stop(stop), self._calls, self._host_bound(),
                        tuple(rounds),
                    )  # fmt: skip
                start, start_ns = perf_counter(), time_ns()
                taken = self._round(size, self._deadline(begin, len(samples)))
                sample_s = (perf_counter() - start) / len(taken)
                rounds.append(Round(start_ns, time_ns(), len(taken)))
                samples += taken
                tell(samples, perf_counter() - begin, self._options.max_time_s)
                gc.collect()
        finally:
            self._regions.timing = False

    def _slices(self, in_turns: Turns, sample_s: float) -> Samples:
        """Samples of a fixed time in slices, each in this process's turn.

        The other process takes as many slices, so that both are at the same workload.
        """
        slice_s = self._options.max_time_s / SLICES
        samples: list[float] = []
        rounds: list[Round] = []
        self._regions.timing = True
        try:
            for _ in range(SLICES):
                in_turns.take()
                start, start_ns = perf_counter(), time_ns()
                left = max(1, self._options.max_samples - len(samples))
                size = int(min(max(1.0, slice_s / sample_s), _ROUND_LIMIT, left))
                taken = self._round(size, start + slice_s)
                sample_s = (perf_counter() - start) / len(taken)
                rounds.append(Round(start_ns, time_ns(), len(taken)))
                samples += taken
                gc.collect()
                in_turns.give()
        finally:
            self._regions.timing = False
        in_turns.take()
        return Samples(tuple(samples), "max_time", self._calls, self._host_bound(), tuple(rounds))

    def _host_bound(self) -> bool:
        """Whether the device was done as soon as the host had issued its work.

        Then marks in the device's queue were reached as they were made, and time the host.
        """
        return self._timer.primed and self._waited_s < _QUEUE_EMPTY * self._issued_s

    def _shared_stop(self, stop: str) -> str:
        """Rank 0's reason to stop, on every rank."""
        for reason in _STOPS[:-1]:
            if self._coordinator.agree(stop == reason):
                return reason
        return _STOPS[-1]

    def _deadline(self, begin: float, taken: int) -> float:
        """When a round that takes longer than thought is cut short; ranks keep to its size."""
        if self._coordinator.world_size > 1 or taken < self._options.min_samples:
            return inf
        return begin + self._options.max_time_s

    def _next_round(
        self, samples: list[float], spent_s: float, sample_s: float
    ) -> tuple[str, float]:
        """Why to stop, or "" and how many samples to take next (rank 0's opinion).

        Sampling ends at the first of: the 95% interval of the median is within
        ``interval_target``, or the noise has settled, and `decided`, where given, agrees;
        ``max_time_s`` is spent; ``max_samples`` are taken. `decided` never ends sampling by
        itself: stopping at the first interval that happens to miss a limit would make false
        alarms likelier.
        """
        options = self._options
        missing = options.min_samples - len(samples)
        if missing > 0 and spent_s >= options.max_time_s:
            return "", 1
        if missing <= 0:
            narrow = self._narrow(samples)
            settled = not narrow and self._settled(samples, spent_s)
            if (narrow or settled) and (self._decided is None or self._decided(tuple(samples))):
                return "interval" if narrow else "noise", 0
            if spent_s >= options.max_time_s:
                return "max_time", 0
        if len(samples) >= options.max_samples:
            return "samples", 0
        wanted = max(1.0, options.max_time_s / _SAMPLE_ROUNDS / sample_s)
        if missing > 0:
            # How long a sample takes is only now being learnt.
            wanted = min(wanted, missing)
        return "", min(wanted, _ROUND_LIMIT, options.max_samples - len(samples))

    def _settled(self, samples: list[float], spent_s: float) -> bool:
        """Whether the noise is known, and known to keep the target out of reach.

        Half of the time is spent on 64 samples or more, their standard deviation over their mean
        has stayed within 5% since there were half as many, and an interval that narrows with the
        root of their number will still be wider than the target when the time is over.
        """
        from statistics import fmean, pstdev

        mean = fmean(samples)
        count = len(samples)
        self._noise.append((count, pstdev(samples, mean) / mean if mean > 0 else 0.0))
        limit_s = self._options.max_time_s
        if count < _SETTLED_SAMPLES or spent_s < limit_s / 2:
            return False
        latest = [noise for taken, noise in self._noise if 2 * taken >= count]
        if len(latest) < 2 or max(latest) > (1 + _SETTLED) * min(latest):
            return False
        reach = max(1.0, limit_s / spent_s) ** 0.5
        return not self._narrow(samples, reach)

    def _narrow(self, samples: list[float], reach: float = 1.0) -> bool:
        """Whether the median's interval, narrowed by `reach`, is within the target."""
        from gpuperf_analyzers.stats import median, median_interval

        interval = median_interval(samples)
        if interval is None:
            return False
        half = (interval[1] - interval[0]) / 2
        return half <= reach * self._options.interval_target * median(samples)

    def _round(self, size: int, deadline: float) -> list[float]:
        """`size` samples in µs a call, fewer where `deadline` passes."""
        workload, timer, calls = self._workload, self._timer, self._calls
        step, setup, teardown = workload.step, workload.setup, workload.teardown
        regions = self._regions
        if timer.primed:
            regions.timing = False
            workload()
            regions.timing = True
        marks = []
        begin = perf_counter()
        for index in range(size):
            regions.sample = index
            if setup is not None:
                setup()
            start = timer.mark()
            for _ in repeat(None, calls):
                step()
            end = timer.mark()
            if teardown is not None:
                teardown()
            marks.append((start, end))
            if perf_counter() > deadline:
                break
        issued = perf_counter()
        timer.synchronize()
        self._issued_s += issued - begin
        self._waited_s += perf_counter() - issued
        regions.flush(calls)
        return [timer.elapsed_us(start, end) / calls for start, end in marks]
