"""Conditions of a measurement that the user is told, one line each."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted
from pytest_gpuperf.recording.errors import RecordingError

if TYPE_CHECKING:
    from pytest_gpuperf.recording.options import Options
    from pytest_gpuperf.recording.sampling import Samples, Warmup
    from pytest_gpuperf.recording.worker_threads import ThreadWatch

_LEFTOVER_BYTES = 2**20

_told: set[str] = set()
_SELDOM = 0.5
"""Share of the rate asked for below which it is told."""


def value_notes(value: object) -> tuple[str, ...]:
    """Notes on a first call whose work is still to come.

    Raises
    ------
    RecordingError
        The call gave a coroutine, which is closed: no call of the workload would do any work.
    """
    if inspect.iscoroutine(value):
        value.close()
        raise RecordingError(
            "gpuperf: the workload is a coroutine function, so that a call does no work: "
            "measure a function that runs it to its end (asyncio.run)"
        )
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return ("the workload returns a generator: its body is not run and not measured",)
    return ()


def sample_notes(samples: Samples, warmup: Warmup, options: Options) -> tuple[str, ...]:
    """Notes on samples that deserve less trust, or are not what they seem."""
    from gpuperf_analyzers.stats import FEWEST_SAMPLES
    from pytest_gpuperf.recording.sample_shape import shape_notes

    notes = []
    if not warmup.steady:
        notes.append(f"still getting faster after {warmup.elapsed_us / 1e6:.1f} s of warm-up")
    if len(samples.us) < FEWEST_SAMPLES:
        notes.append(
            f"only {counted(len(samples.us), 'sample')} (max_time {options.max_time_s:g} s): "
            f"an interval takes {FEWEST_SAMPLES}"
        )
    if samples.calls_per_sample > 1:
        notes.append(f"a sample is the mean of {samples.calls_per_sample} calls")
    if samples.host_bound:
        notes.append(
            "the device never waited in its queue: samples time the host's launches and waits "
            "(timer='graph' or 'kernel' leaves them out)"
        )
    return (*notes, *shape_notes(samples.us))


def leftover_notes(grown_bytes: int) -> tuple[str, ...]:
    """A note where tensors that the samples made are still alive after them.

    Parameters
    ----------
    grown_bytes
        Bytes alive after the samples, beyond those alive before them.
    """
    if grown_bytes < _LEFTOVER_BYTES:
        return ()
    grown = f"{grown_bytes / 2**20:.1f} MiB"
    return (f"the samples left {grown} more tensors alive: something keeps what calls make",)


def thread_notes(watch: ThreadWatch) -> tuple[str, ...]:
    """A note where the workload's own threads worked."""
    if not watch.worked:
        return ()
    return ("Python threads worked beside the workload: their ops are not in trace or FLOP",)


def throttled_notes(throttled: Sequence[int], count: int) -> tuple[str, ...]:
    """A note where some of the `count` samples were taken while the clock was held down."""
    if not throttled:
        return ()
    return (f"{len(throttled)} of {count} samples were taken while the clock was held down",)


def telemetry_notes(
    reason: str | None, telemetry: Mapping[str, Mapping[str, float]]
) -> tuple[str, ...]:
    """Why there is no telemetry, once a process for each reason; or that it was read too seldom.

    Parameters
    ----------
    reason
        Why NVML told nothing, None where it did.
    telemetry
        Its summary.
    """
    if reason is None:
        rate = telemetry.get("sampler_rate", {})
        achieved, asked = rate.get("value", 0.0), rate.get("max", 0.0)
        if achieved >= asked * _SELDOM:
            return ()
        return (f"NVML was read {achieved:.0f} times a second where {asked:.0f} were asked for",)
    if reason in _told:
        return ()
    _told.add(reason)
    return (f"no clocks, power or temperature: {reason}",)
