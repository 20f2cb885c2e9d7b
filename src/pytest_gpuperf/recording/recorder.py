"""One recording: first call, FLOP count, warm-up, samples, profiled steps, trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.live_block import LiveBlock
from pytest_gpuperf.recording.busy_cpus import watch_others
from pytest_gpuperf.recording.coordination import SOLO, Coordinator
from pytest_gpuperf.recording.devices import device_title
from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.flops_of_call import with_flops, with_peaks_again
from pytest_gpuperf.recording.gpu_watch import looped, watch
from pytest_gpuperf.recording.inputs import input_notes
from pytest_gpuperf.recording.kernel_time import take_kernel_samples
from pytest_gpuperf.recording.memory import alive_bytes
from pytest_gpuperf.recording.memory_pass import with_memory
from pytest_gpuperf.recording.notes import (
    leftover_notes,
    sample_notes,
    telemetry_notes,
    throttled_notes,
    value_notes,
)
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.paired import Beside, paired_sampling, refuse_timer
from pytest_gpuperf.recording.passes import Enough, Passes
from pytest_gpuperf.recording.profiler_conflicts import (
    further_profilers_refused,
    refuse_active_profiler,
)
from pytest_gpuperf.recording.quiet import garbage_collection_off, observers
from pytest_gpuperf.recording.regions import RegionLog, activate
from pytest_gpuperf.recording.sampling import Samples, Sampling, Warmup, Workload, warm_up
from pytest_gpuperf.recording.telemetry.summary import Telemetry
from pytest_gpuperf.recording.timed_calls import timed_calls
from pytest_gpuperf.recording.timers import Timer, make_timer
from pytest_gpuperf.recording.torch_counts import TorchCounts, counting
from pytest_gpuperf.recording.turns import turns

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config

Decided = Callable[[tuple[float, ...], LiveBlock], bool]
"""Whether samples (µs) decide the limits, given what is known of the workload beside them."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of one recording.

    Attributes
    ----------
    value
        What the first call returned.
    block
        The measurements, as they stand in the trace too.
    trace_path
        The trace.
    region_limits
        Limits that the workload declared on its regions, by region.
    """

    value: Any
    block: LiveBlock
    trace_path: Path
    region_limits: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def record(
    step: Callable[[], object],
    *,
    device: torch.device,
    trace_path: Path,
    options: Options | None = None,
    name: str = "",
    setup: Callable[[], object] | None = None,
    teardown: Callable[[], object] | None = None,
    beside: Beside | None = None,
    coordinator: Coordinator = SOLO,
    decided: Decided | None = None,
    enough: Enough | None = None,
    config: Config | None = None,
) -> Recorded:
    """Measure `step` on `device` and leave a trace with the measurements inside.

    Parameters
    ----------
    step
        The workload; one call is one step. What its first call returns is kept until the end,
        and counts as alive memory.
    device
        What :func:`resolve_device` gave.
    trace_path
        Where the trace goes: ``.json`` or ``.json.gz``.
    options
        How to measure.
    name
        Name of the measurement.
    setup, teardown
        Called before and after every call of `step`, outside the timed part.
    beside
        Another workload, timed in turn with `step`; it is neither profiled nor counted.
    coordinator
        The other ranks that run the same workload; every one of them records at the same time.
    decided
        Whether the limits can be judged on these samples (µs); FLOP, peaks and items are in the
        block that goes along. Sampling goes on, up to ``max_time_s``, while it says no. Asked on
        rank 0 only.
    enough
        Whether the limits on the trace can be judged by this one. While some rank says no, twice
        as many steps are profiled, until that has taken ``max_time_s``; the last trace stays.
    config
        FLOP formulas of custom ops.

    Raises
    ------
    RecordingError
        A profiler is active already, the timer does not fit the device, `step` is a coroutine
        function, or the profiler gave no trace.
    Exception
        Whatever the workload raises, untouched; the process is as it was before.
    """
    options = options or Options()
    refuse_active_profiler()
    workload = Workload(step, setup, teardown)
    timer = make_timer(options.timer, device)
    if beside is not None:
        refuse_timer(timer)
    regions = RegionLog(timer)
    block = LiveBlock(name=name, device=device_title(device), device_type=device.type)
    with _device_context(device), _reporting_to(regions):
        with further_profilers_refused():
            counted = counting(device)
            value, first_call_us = _first_call(workload, timer)
            at_first = counted()
            notes = (*value_notes(value), *input_notes(step, device), *observers())
            block = _with_declared(block, timer, options)
            block = with_flops(block, workload, device, options, coordinator, config)
            ask = None if decided is None else partial(_ask, decided, block)
            # The call that counts FLOP runs under a mode that torch.compile compiles anew for.
            counted = counting(device)
            timed = _timed(workload, device, timer, options, coordinator, regions, ask, beside)
            block = _with_times(block, timed, regions, at_first, counted())
        if timer.name == "kernel":
            call_us = min(block.samples_us)
            taken = take_kernel_samples(workload, device, options, call_us, coordinator)
            notes = (*notes, *sample_notes(taken, timed.warmup, options))
            block = replace(block, samples_us=taken.us, stop=taken.stop)
        block = with_peaks_again(block, coordinator)
        block = replace(
            block, first_call_us=first_call_us, notes=(*notes, *timed.notes, *block.notes)
        )
        block = with_memory(block, workload, device, options, coordinator)
        regions.annotating = True
        path = Path(trace_path)
        passes = Passes(workload, device, path, coordinator)
        block = passes.until(enough, block, options, config)
    return Recorded(value, block, path, regions.limits)


def _ask(
    decided: Decided,
    block: LiveBlock,
    samples_us: tuple[float, ...],
    beside_us: tuple[float, ...] = (),
) -> bool:
    return decided(samples_us, replace(block, beside_us=beside_us))


def _device_context(device: torch.device) -> Any:
    """Make `device` current, so that its current stream is the one timed."""
    return import_torch().cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def _reporting_to(regions: RegionLog) -> Iterator[None]:
    """Regions entered within the block are this recording's."""
    former = activate(regions)
    if former is not None:
        activate(former)
        raise RecordingError("gpuperf: a measurement was asked for within another one's workload")
    try:
        yield
    finally:
        activate(None)


def _first_call(workload: Workload, timer: Timer) -> tuple[object, float]:
    """Value and µs of the first call: compilation, autotuning and set-up are in it."""
    if workload.setup is not None:
        workload.setup()
    timer.synchronize()
    begin = perf_counter()
    value = workload.step()
    timer.synchronize()
    elapsed_us = (perf_counter() - begin) * 1e6
    if workload.teardown is not None:
        workload.teardown()
    return value, elapsed_us


@dataclass(frozen=True, slots=True)
class _Timed:
    """What the pass without the profiler gave."""

    warmup: Warmup
    samples: Samples
    peak_bytes: int | None
    peak_reserved_bytes: int | None
    telemetry: Telemetry
    notes: tuple[str, ...]
    throttled: tuple[int, ...] = ()


def _timed(
    workload: Workload,
    device: torch.device,
    timer: Timer,
    options: Options,
    coordinator: Coordinator,
    regions: RegionLog,
    decided: Callable[..., bool] | None,
    beside: Beside | None = None,
) -> _Timed:
    """Warm up and sample, with NVML watching a GPU."""
    peak: int | None = None
    reserved: int | None = None
    telemetry = Telemetry()
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    throttled: tuple[int, ...] = ()

    def take() -> Samples:
        nonlocal others
        seen = watch_others(siblings=coordinator.world_size > 1 or turns() is not None)
        samples = sampling.run(called.call_us)
        others = seen()
        return called.per_call(samples)

    with garbage_collection_off(freeze=True):
        warmup = warm_up(workload, timer, options.warmup_s, coordinator)
        called = timed_calls(workload, device, timer, options, warmup.call_us, coordinator)
        ask = called.asking(decided)
        sampling = (
            Sampling(called.workload, timer, options, coordinator, regions, ask)
            if beside is None
            else paired_sampling(
                called.workload, beside, device, timer, options, coordinator, regions, decided
            )
        )
        held = alive_bytes(device)
        if device.type != "cuda":
            samples = take()
        else:
            seconds = options.counters_s
            loop = partial(looped, workload, timer, seconds, coordinator=coordinator)
            watched = watch(device, take, loop if seconds else None, options.dcgm_url)
            samples, peak, telemetry = watched.samples, watched.peak_bytes, watched.telemetry
            reserved = watched.peak_reserved_bytes
            notes = telemetry_notes(watched.absent_reason, telemetry.values)
            throttled = watched.throttled
            notes = (*notes, *throttled_notes(throttled, len(samples.us)))
        kept = leftover_notes(alive_bytes(device) - held)
    of_samples = () if timer.name == "kernel" else sample_notes(samples, warmup, options)
    notes = (*of_samples, *called.notes, *others, *kept, *notes)
    return _Timed(warmup, samples, peak, reserved, telemetry, notes, throttled)


def _with_declared(block: LiveBlock, timer: Timer, options: Options) -> LiveBlock:
    """`block` with what was declared, and how it is timed."""
    return replace(
        block,
        timer=timer.name,
        l2=options.l2 or "",
        model_flops=None if options.flops is None else round(options.flops),
        bytes_moved=None if options.bytes is None else round(options.bytes),
        estimate_bytes=None if options.estimate is None else round(options.estimate),
        items=options.items,
        items_unit=options.items_unit,
    )


def _with_times(
    block: LiveBlock, timed: _Timed, regions: RegionLog, first: TorchCounts, later: TorchCounts
) -> LiveBlock:
    """`block` with what the timed pass gave; counts are of the first call and of it."""
    counts = first + later
    return replace(
        block,
        samples_us=timed.samples.us,
        beside_us=timed.samples.beside_us,
        throttled_samples=timed.throttled,
        stop=timed.samples.stop,
        warmup_us=timed.warmup.elapsed_us,
        warmup_calls=timed.warmup.calls,
        peak_bytes=timed.peak_bytes,
        peak_reserved_bytes=timed.peak_reserved_bytes,
        telemetry=timed.telemetry.values,
        telemetry_absent=timed.telemetry.absent,
        torch_counts=counts.counted,
        torch_counts_absent=counts.absent,
        torch_counts_later=later.known(),
        regions={name: tuple(us) for name, us in regions.samples_us.items()},
    )
