"""The second pass: a few steps under torch's profiler, exported as one trace."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pytest_gpuperf.recording.counter_tracks import MakeEvents, copy_with_events
from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.in_flight import collectives_closed
from pytest_gpuperf.recording.profiler_conflicts import further_profilers_refused

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording.sampling import Workload

Counters = Callable[[int, int], Sequence[Mapping[str, Any]]]
"""Makes counter events from when recording began (ns) on, given the trace's base time."""

STEP_NAME = "ProfilerStep"
METADATA_KEY = "gpuperf"


def profile_steps(
    workload: Workload,
    *,
    device: torch.device,
    steps: int,
    metadata: Callable[[], str],
    path: Path,
    barrier: Callable[[], None],
    counters: Counters | None = None,
) -> None:
    """Run one unrecorded and `steps` recorded steps, and write the trace to `path`.

    Parameters
    ----------
    workload
        What a step is. Its setup and teardown run between the step spans.
    metadata
        Called once, right before recording begins; the JSON text that the trace carries under
        ``gpuperf``.
    path
        ``.json`` or ``.json.gz``; it appears whole or not at all.
    barrier
        Called before recording begins, so that the ranks' traces begin together, and before it
        ends, so that no collective is left running.
    counters
        Makes counter events to go along.
    """
    torch = import_torch()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    complete = False
    begin_ns = 0

    def export(profiler: Any) -> None:
        # Also called when the workload raised halfway: then there is nothing worth keeping.
        if complete:
            events = None if counters is None else partial(counters, begin_ns)
            with _written_whole(path, events) as temporary:
                profiler.export_chrome_trace(str(temporary))

    schedule = torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1)
    profiler = torch.profiler.profile(
        activities=activities,
        schedule=schedule,
        on_trace_ready=export,
        record_shapes=True,
        profile_memory=True,
    )
    if device.type == "cpu":
        _lead_in(torch, workload, barrier)
    # Step spans are our own, so that setup and teardown stay outside them.
    profiler.record_steps = False
    with profiler, further_profilers_refused():
        if device.type != "cpu":
            workload()
        _synchronize(torch, device)
        profiler.preset_metadata_json(METADATA_KEY, metadata())
        barrier()
        begin_ns = time_ns()
        profiler.step()
        for number in range(1, steps + 1):
            if number < steps:
                _annotated_step(torch, workload, number)
            else:  # what it waits for after the last step is in no step, and in no window
                with collectives_closed(barrier):
                    _annotated_step(torch, workload, number)
                    _synchronize(torch, device)
                complete = True
            profiler.step()
    if not path.is_file():
        raise RecordingError(f"gpuperf: the profiler ended without a trace for {path}")


def _lead_in(torch: Any, workload: Workload, barrier: Callable[[], None]) -> None:
    """One step in a session of its own, so that the next one sees its memory freed.

    On a CPU torch knows the size of a freed block only if a profiler saw it allocated. What one
    step leaves for the next to free, such as gradients, would otherwise count twice.
    """
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with (
        torch.profiler.profile(activities=cpu, profile_memory=True),
        further_profilers_refused(),
        collectives_closed(barrier),
    ):
        workload()


def _annotated_step(torch: Any, workload: Workload, number: int) -> None:
    """One step in a span of the name that torch's own schedule gives."""
    if workload.setup is not None:
        workload.setup()
    with torch.profiler.record_function(f"{STEP_NAME}#{number}"):
        workload.step()
    if workload.teardown is not None:
        workload.teardown()


def _synchronize(torch: Any, device: torch.device) -> None:
    """Let a GPU finish, so that no kernel's launch and run fall on two sides of a boundary."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _written_whole(path: Path, events: MakeEvents | None) -> Iterator[Path]:
    """A temporary file that is compressed (for ``.gz``) and renamed to `path` after the block.

    `events` makes counter events to be written along.
    """
    failed = f"gpuperf: the trace is missing from {path.parent}"
    mend = "is the disk full, or a limit on the size of files in force?"
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = path.with_name(f".{path.name}.{os.getpid()}.tmp.json")
    packed = plain.with_suffix(".gz")
    try:
        yield plain
        if not plain.is_file():  # torch says why on the standard error only
            raise RecordingError(f"{failed}: the profiler could not write it ({mend})")
        if path.suffix == ".gz":
            with gzip.open(packed, "wb", compresslevel=4) as target:
                copy_with_events(plain, cast("BinaryIO", target), events)
            packed.replace(path)
        elif events is not None:
            with packed.open("wb") as copied:
                copy_with_events(plain, copied, events)
            packed.replace(path)
        else:
            plain.replace(path)
    except OSError as error:
        raise RecordingError(f"{failed}: {error.strerror or error} ({mend})") from error
    finally:
        # torch writes beside the name that it is given, and leaves the rest where it fails.
        for rest in (plain, packed, plain.with_name(f"{plain.name}.tmp")):
            rest.unlink(missing_ok=True)
