"""What is called between a sample's marks: the workload or its graph, after a flush or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.coordination import Coordinator, share_count
from pytest_gpuperf.recording.graph_replay import calls_a_replay, capture
from pytest_gpuperf.recording.l2_cache import flushed
from pytest_gpuperf.recording.sampling import Samples, Workload

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording.options import Options
    from pytest_gpuperf.recording.timers import Timer

Decided = Callable[[tuple[float, ...]], bool]


@dataclass(frozen=True, slots=True)
class TimedCalls:
    """What the samples call.

    Attributes
    ----------
    workload
        One call between two marks.
    calls
        How many calls of the user's workload that is.
    call_us
        What it takes, as far as known.
    notes
        What the user is told of it.
    """

    workload: Workload
    calls: int
    call_us: float
    notes: tuple[str, ...] = ()

    def per_call(self, samples: Samples) -> Samples:
        """`samples` in time a call of the user's workload."""
        if self.calls == 1:
            return samples
        return Samples(
            tuple(us / self.calls for us in samples.us),
            samples.stop,
            samples.calls_per_sample * self.calls,
            samples.host_bound,
            samples.rounds,
        )

    def asking(self, decided: Decided | None) -> Decided | None:
        """What to ask of samples of ours, where `decided` takes them in time a call."""
        if decided is None or self.calls == 1:
            return decided
        return lambda samples_us: decided(tuple(us / self.calls for us in samples_us))


def timed_calls(
    workload: Workload,
    device: torch.device,
    timer: Timer,
    options: Options,
    call_us: float,
    coordinator: Coordinator,
) -> TimedCalls:
    """What to call for samples by `timer` with the cache as ``options.l2`` says.

    Raises
    ------
    RecordingError
        The workload cannot be captured as a graph, or the size of the cache is not known.
    """
    if device.type != "cuda":
        if options.l2 is None:
            return TimedCalls(workload, 1, call_us)
        note = f"l2='{options.l2}' is not applicable to a CPU: its caches are as calls leave them"
        return TimedCalls(workload, 1, call_us, (note,))
    cold = options.l2 == "cold"
    if timer.name != "graph":
        made = flushed(workload, device) if cold else workload
        return TimedCalls(made, 1, call_us)
    wanted = share_count(coordinator, calls_a_replay(call_us))
    captured = capture(workload, device, wanted, cold=cold)
    replay = Workload(captured.replay)
    if cold and not captured.rotating:
        replay = flushed(replay, device)
    note = f"{captured.calls} calls captured as a CUDA graph in {captured.capture_us / 1e3:.0f} ms"
    return TimedCalls(replay, captured.calls, call_us * captured.calls, (note,))
