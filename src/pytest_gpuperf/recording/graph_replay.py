"""Calls captured once as a CUDA graph and replayed, so that the host's launches take no part.

For kernels shorter than a launch: back to back they would wait for the host, and an event would
time the host. A replay launches all captured calls at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.l2_cache import rotated

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording.sampling import Workload

_REPLAY_US = 200.0
"""Length that a replay should have, so that starting it does not count."""
_MOST_CALLS = 64
_CALLS_BEFORE = 3


@dataclass(frozen=True, slots=True)
class Captured:
    """A graph that is ready to be replayed.

    Attributes
    ----------
    replay
        Runs all captured calls.
    calls
        How many those are.
    capture_us
        What the capture took, the calls before it included.
    rotating
        Whether the captured calls rotate over copies of the inputs larger than the L2 cache.
    """

    replay: Callable[[], object]
    calls: int
    capture_us: float
    rotating: bool


def calls_a_replay(call_us: float) -> int:
    """How many calls of `call_us` µs make a replay long enough."""
    return min(_MOST_CALLS, max(1, int(_REPLAY_US / max(call_us, 1e-3))))


def capture(workload: Workload, device: torch.device, wanted: int, *, cold: bool) -> Captured:
    """Capture `wanted` calls; one where the cache is to be flushed between replays.

    Parameters
    ----------
    workload
        What is called.
    device
        A CUDA device.
    wanted
        How many calls to capture.
    cold
        Whether inputs are to come from memory: where the call has any of its own, the captured
        calls rotate over copies of them instead.

    Raises
    ------
    RecordingError
        The workload has a setup or teardown, which a graph cannot hold, or it does something that
        cannot be captured (reads a value, allocates outside of torch, waits).
    """
    if not workload.plain:
        raise RecordingError(
            "gpuperf: timer='graph' replays the calls alone: a workload with setup or teardown "
            "takes timer='event'"
        )
    begin = perf_counter()
    steps = rotated(workload.step, device) if cold else None
    calls = steps or [workload.step] * (1 if cold else wanted)
    graph = _captured(calls, device)
    return Captured(graph.replay, len(calls), (perf_counter() - begin) * 1e6, steps is not None)


def _captured(calls: Sequence[Callable[[], object]], device: torch.device) -> Any:
    cuda = import_torch().cuda
    # Libraries set themselves up in the first calls on a stream, which must not be captured.
    side = cuda.Stream(device)
    side.wait_stream(cuda.current_stream(device))
    with cuda.stream(side):
        for _ in range(_CALLS_BEFORE):
            calls[0]()
    cuda.current_stream(device).wait_stream(side)
    cuda.synchronize(device)
    graph = cuda.CUDAGraph()
    try:
        with cuda.graph(graph):
            for call in calls:
                call()
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RecordingError(
            f"gpuperf: timer='graph': the workload cannot be captured as a CUDA graph ({first}): "
            "take timer='event'"
        ) from error
    cuda.synchronize(device)
    return graph
