"""The timed pass on a GPU with NVML watching, and the loop that its slower counters need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.coordination import Coordinator, share_count
from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.recording.telemetry.identity import device_uuids
from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler
from pytest_gpuperf.recording.telemetry.summary import Telemetry, joined, telemetry_of
from pytest_gpuperf.recording.telemetry.throttled import throttled_samples
from pytest_gpuperf.recording.telemetry.tracks import track_events

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording.profiled import Counters
    from pytest_gpuperf.recording.sampling import Samples, Workload
    from pytest_gpuperf.recording.timers import Timer

_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Watched:
    """What a watched pass gave.

    Attributes
    ----------
    samples
        The samples.
    peak_bytes
        The allocator's peak while they were taken.
    telemetry
        NVML's summary, of the loop where there was one.
    absent_reason
        Why NVML told nothing, or nothing more; None where all went well.
    throttled
        Places of the samples that were taken while the clock was held down.
    peak_reserved_bytes
        The most that the allocator held from the device while they were taken.
    """

    samples: Samples
    peak_bytes: int
    telemetry: Telemetry
    absent_reason: str | None
    throttled: tuple[int, ...] = ()
    peak_reserved_bytes: int | None = None


def watch(
    device: torch.device,
    run: Callable[[], Samples],
    loop: Callable[[float], int] | None,
    dcgm_url: str | None = None,
) -> Watched:
    """Take the samples under NVML's eyes; then `loop`, where counters were asked for.

    Parameters
    ----------
    device
        A CUDA device.
    run
        Takes the samples.
    loop
        Calls the workload back to back, given the time of a sample in µs, and gives the number
        of calls. The counters are then of this window: it holds nothing else.
    dcgm_url
        A dcgm-exporter that is scraped meanwhile, where the device has no GPM.
    """
    cuda = import_torch().cuda
    uuids = device_uuids(device)
    cuda.reset_peak_memory_stats(device)
    with TelemetrySampler(uuids) as sampler:
        samples = run()
    peak_bytes = int(cuda.max_memory_allocated(device))
    reserved_bytes = int(cuda.max_memory_reserved(device))
    seen, throttled = telemetry_of(sampler), throttled_samples(sampler.watched, samples.rounds)
    if loop is not None:
        with TelemetrySampler(uuids, dcgm=True, dcgm_url=dcgm_url) as sampler:
            calls = loop(min(samples.us))
        seen = joined(seen, telemetry_of(sampler, calls))
    return Watched(samples, peak_bytes, seen, sampler.absent_reason, throttled, reserved_bytes)


def looped(
    workload: Workload, timer: Timer, seconds: float, call_us: float, coordinator: Coordinator
) -> int:
    """Call `workload` back to back for at least `seconds`; the number of calls.

    Parameters
    ----------
    workload, timer
        What is called, and what waits for the device.
    seconds
        How long.
    call_us
        Time of one call.
    coordinator
        The other ranks, which call it equally often.
    """
    begin = perf_counter()
    size = share_count(coordinator, max(1.0, seconds * 1e6 / _ROUNDS / max(call_us, 1e-3)))
    calls = 0
    while True:
        for _ in range(size):
            workload()
        timer.synchronize()
        calls += size
        if not coordinator.agree(perf_counter() - begin < seconds):
            return calls


@contextmanager
def counters_of(device: torch.device) -> Iterator[Counters | None]:
    """What makes the counter tracks of the trace that is recorded in the block; None on a CPU."""
    if device.type != "cuda":
        yield None
        return
    with TelemetrySampler(device_uuids(device)) as sampler:
        # The profiler shows a device's streams under a process of the device's index.
        process = device.index or 0
        yield lambda since, base: track_events(sampler.watched, base, process, since_ns=since)
