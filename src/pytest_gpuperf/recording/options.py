"""How one workload is to be measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

TimerName = Literal["wall", "event", "graph", "kernel"]
L2 = Literal["hot", "cold"]
TIMERS: tuple[TimerName, ...] = get_args(TimerName)


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of one measurement; each has a default that suits most workloads.

    Attributes
    ----------
    warmup_s
        Seconds spent calling the workload before the first sample.
    max_time_s
        Seconds after which no further sample is begun, ``min_samples`` excepted.
    steps
        Profiled steps.
    timer
        One of :data:`gpuperf_analyzers.live_block.TIMERS`; None takes ``event`` on CUDA and
        ``wall`` elsewhere.
    l2
        A GPU's L2 cache before a sample: ``hot`` as the last call left it, ``cold`` flushed; None
        is hot.
    flops
        Model FLOP of one step, where the counter cannot know them.
    dtype
        Dtype (``bf16``) that declared FLOP are executed in.
    bytes
        Bytes that one step moves, as declared.
    items, items_unit
        Items (``items``, ``tokens``) of one step, for throughput.
    interval_target
        Half-width of the median's 95% interval, relative to the median, at which sampling may
        stop.
    min_samples, max_samples
        Fewest samples, whatever they cost; most that are taken.
    measure_peak
        Whether the peak of a CPU may be measured (seconds, once per machine) where FLOP are
        counted.
    estimate
        Bytes that the step's peak is estimated at, as declared.
    counters_s
        Seconds that the workload is looped for, after the samples, for what NVML counts; 0 leaves
        it with what the samples' own time shows.
    dcgm_url
        A dcgm-exporter's address (``http://localhost:9400/metrics``), which is scraped meanwhile
        for what a device without GPM does not tell.
    breakdown
        Whether some more steps are profiled that give every byte of memory a category.
    trend_steps
        Steps that are called after those for the trend of memory; 0 leaves them out.
    """

    warmup_s: float = 1.0
    max_time_s: float = 2.0
    steps: int = 3
    timer: TimerName | None = None
    l2: L2 | None = None
    flops: float | None = None
    dtype: str | None = None
    bytes: float | None = None
    items: float | None = None
    items_unit: str = "items"
    interval_target: float = 0.02
    min_samples: int = 3
    max_samples: int = 4096
    measure_peak: bool = True
    counters_s: float = 0.0
    dcgm_url: str | None = None
    estimate: float | None = None
    breakdown: bool = False
    trend_steps: int = 0

    def __post_init__(self) -> None:
        for name in ("warmup_s", "max_time_s", "counters_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"gpuperf: {name} must be a time of 0 s or more, not {value!r}")
        for name in ("flops", "bytes", "items", "interval_target"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"gpuperf: {name} must be a number above 0, not {value!r}")
        if self.steps < 1:
            raise ValueError(f"gpuperf: steps must be 1 or more, not {self.steps}")
        if not 1 <= self.min_samples <= self.max_samples:
            raise ValueError(
                f"gpuperf: min_samples ({self.min_samples}) must be from 1 to max_samples "
                f"({self.max_samples})"
            )
        if self.timer not in (None, *TIMERS):
            known = ", ".join(TIMERS)
            raise ValueError(f"gpuperf: timer must be one of {known}, not {self.timer!r}")
        if self.l2 not in (None, "hot", "cold"):
            raise ValueError(f"gpuperf: l2 must be hot or cold, not {self.l2!r}")
