"""One profiler at a time: a second one ends the first without events, or crashes the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.memory import objects_of


def refuse_active_profiler() -> None:
    """Raise where a profiler is already at work.

    Raises
    ------
    RecordingError
        A torch profiler records, or a scheduled one is in its warm-up, anywhere in the process.
    """
    torch = import_torch()
    recording = torch.autograd._profiler_enabled()  # noqa: SLF001 - there is no public question
    # The thread's own flag misses a profiler of another thread; older torch has only that flag.
    anywhere = getattr(torch.autograd.profiler, "_is_profiler_enabled", False)
    if recording or anywhere or _warming_up(torch):
        raise RecordingError(
            "gpuperf: a torch profiler is already active, and a second one would leave it without "
            "events: stop it before the measurement, or run with --gpuperf-disable"
        )


def _warming_up(torch: Any) -> bool:
    """Whether a profiler has prepared itself but not begun to record."""
    warmup = torch.profiler.ProfilerAction.WARMUP
    return any(
        getattr(profiler, "step_rec_fn", None) is not None
        and getattr(profiler, "current_action", None) == warmup
        for profiler in objects_of(torch.profiler.profile)
    )


@contextmanager
def further_profilers_refused() -> Iterator[None]:
    """Let no profiler be set up within the block.

    Every profiler of torch sets up a ``torch.autograd.profiler.profile`` when it starts, so its
    constructor is where the workload can be told; ending the profiler of the recording instead
    would crash the process.
    """
    profile = import_torch().autograd.profiler.profile
    original = profile.__init__

    def refuse(*_: object, **__: object) -> None:
        raise RecordingError(
            "gpuperf: the workload starts a torch profiler itself, and two cannot run at once: "
            "measure the workload without it"
        )

    profile.__init__ = refuse
    try:
        yield
    finally:
        profile.__init__ = original
