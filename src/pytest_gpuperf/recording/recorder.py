"""One recording: first call, warm-up, samples, FLOP count, profiled steps, trace."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.live_block import LiveBlock
from pytest_gpuperf.recording.coordination import SOLO, Coordinator
from pytest_gpuperf.recording.devices import device_title
from pytest_gpuperf.recording.environment import environment
from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.flop_count import FlopCount, count_flops
from pytest_gpuperf.recording.memory import alive_bytes
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.profiled import profile_steps, refuse_active_profiler
from pytest_gpuperf.recording.quiet import garbage_collection_off, observers
from pytest_gpuperf.recording.regions import RegionLog, activate
from pytest_gpuperf.recording.sampling import Samples, Sampling, Warmup, Workload, warm_up
from pytest_gpuperf.recording.timers import make_timer

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config

Decided = Callable[[tuple[float, ...]], bool]


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
    coordinator: Coordinator = SOLO,
    decided: Decided | None = None,
    config: Config | None = None,
) -> Recorded:
    """Measure `step` on `device` and leave a trace with the measurements inside.

    Parameters
    ----------
    step
        The workload; one call is one step.
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
    coordinator
        The other ranks that run the same workload; every one of them records at the same time.
    decided
        Whether the limits can be judged on these samples (µs). Sampling goes on, up to
        ``max_time_s``, while it says no. Asked on rank 0 only.
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
    torch = import_torch()
    options = options or Options()
    refuse_active_profiler()
    timer = make_timer(options.timer, device)
    workload = Workload(step, setup, teardown)
    regions = RegionLog(timer)
    with _device_context(torch, device), _regions_reporting_to(regions):
        begin = perf_counter()
        value = workload()
        timer.synchronize()
        first_call_us = (perf_counter() - begin) * 1e6
        notes = _value_notes(value)
        notes += observers()
        with garbage_collection_off():
            warmup = warm_up(workload, timer, options.warmup_s, coordinator)
            _reset_peak(torch, device)
            sampling = Sampling(workload, timer, options, coordinator, regions, decided)
            samples = sampling.run(warmup.call_us)
            peak_bytes = _peak(torch, device)
        notes += _sample_notes(samples, warmup, options)
        tf32 = bool(torch.backends.cuda.matmul.allow_tf32) if device.type == "cuda" else None
        counted = count_flops(workload, tf32=bool(tf32), config=config)
        timer.synchronize()
        flops = _declared_over_counted(options, counted)
        block: LiveBlock | None = None

        def metadata() -> str:
            nonlocal block
            block = LiveBlock(
                name=name,
                device=device_title(device),
                device_type=device.type,
                timer=timer.name,
                samples_us=samples.us,
                stop=samples.stop,
                warmup_us=warmup.elapsed_us,
                warmup_calls=warmup.calls,
                first_call_us=first_call_us,
                steps=options.steps,
                flops=flops.flops,
                flops_by_dtype=flops.by_dtype,
                flops_source=flops.source,
                model_flops=None if options.flops is None else round(options.flops),
                items=options.items,
                items_unit=options.items_unit,
                alive_bytes=alive_bytes(device),
                peak_bytes=peak_bytes,
                tf32=tf32,
                regions={k: tuple(v) for k, v in regions.samples_us.items()},
                environment=environment(device),
                notes=notes,
            )
            return json.dumps(block.to_json())

        regions.annotating = True
        profile_steps(
            workload,
            device=device,
            steps=options.steps,
            metadata=metadata,
            path=Path(trace_path),
            barrier=coordinator.barrier,
        )
    if block is None:
        raise RecordingError("gpuperf: the profiler never began to record")
    return Recorded(value, block, Path(trace_path), regions.limits)


def _device_context(torch: Any, device: torch.device) -> Any:
    """Make `device` current, so that its current stream is the one timed."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def _regions_reporting_to(regions: RegionLog) -> Iterator[None]:
    former = activate(regions)
    try:
        yield
    finally:
        activate(former)


def _value_notes(value: object) -> tuple[str, ...]:
    """Notes on a first call whose work is still to come; RecordingError for a coroutine."""
    if inspect.iscoroutine(value):
        value.close()
        raise RecordingError(
            "gpuperf: the workload is a coroutine function, so that a call does no work: "
            "measure a function that runs it to its end (asyncio.run)"
        )
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return ("the workload returns a generator: its body is not run and not measured",)
    return ()


def _sample_notes(samples: Samples, warmup: Warmup, options: Options) -> tuple[str, ...]:
    """Notes on samples that deserve less trust."""
    notes = []
    if not warmup.steady:
        notes.append(f"still getting faster after {warmup.elapsed_us / 1e6:.1f} s of warm-up")
    if samples.stop == "max_time" and len(samples.us) < 6:
        notes.append(
            f"{len(samples.us)} samples within max_time ({options.max_time_s:g} s): too few for "
            "an interval"
        )
    if samples.calls_per_sample > 1:
        notes.append(f"a sample is the mean of {samples.calls_per_sample} calls")
    return tuple(notes)


def _declared_over_counted(options: Options, counted: FlopCount) -> FlopCount:
    """The FLOP to judge by: declared ones stand over counted ones.

    Declared FLOP are of the dtype declared with them, else of the only dtype counted, else of
    none that is known.
    """
    if options.flops is None:
        return counted
    flops = round(options.flops)
    dtype = options.dtype or (next(iter(counted.by_dtype)) if len(counted.by_dtype) == 1 else None)
    return FlopCount(flops, {dtype: flops} if dtype else {}, "declared")


def _reset_peak(torch: Any, device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak(torch: Any, device: torch.device) -> int | None:
    """Largest sum of allocations since the reset, where the allocator keeps it."""
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
