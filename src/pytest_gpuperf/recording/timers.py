"""Clocks that a sample is read from.

``wall`` reads the host's monotonic clock; on a GPU it waits for the device first, so that it
includes the wait. ``event`` places a CUDA event in the current stream at each mark and reads
them after the round: the host is never stopped between samples, so that the queue stays full
and a sample is the time the device takes from one mark to the next. ``graph`` places the events
around replays of the calls, captured as a CUDA graph (:mod:`.graph_replay`). ``kernel`` samples
are read from a trace (:mod:`.kernel_time`); its marks, for regions and rounds, are events.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from pytest_gpuperf.recording.errors import RecordingError, import_torch

if TYPE_CHECKING:
    import torch


class Timer(Protocol):
    """Marks points of a run and gives the time between two of them."""

    name: str
    batch_us: float
    """Shortest sample at which the timer's own resolution and cost are below 0.5%."""
    primed: bool
    """Whether a round begins with an untimed call that fills the device's queue."""

    def mark(self) -> Any:
        """A point in the run, to be read after :meth:`synchronize`."""

    def elapsed_us(self, start: Any, end: Any) -> float:
        """Time between two marks, µs."""

    def synchronize(self) -> None:
        """Wait until everything that was queued is done."""


class WallTimer:
    """``perf_counter_ns``, after waiting for `device` where it is a GPU."""

    name = "wall"
    batch_us = 100.0
    primed = False

    def __init__(self, device: torch.device) -> None:
        self._wait: Callable[[], object] | None = None
        if device.type == "cuda":
            cuda = import_torch().cuda
            self._wait = lambda: cuda.synchronize(device)

    def mark(self) -> int:
        """Nanoseconds now."""
        if self._wait is not None:
            self._wait()
        return perf_counter_ns()

    def elapsed_us(self, start: int, end: int) -> float:
        """Time between two marks, µs."""
        return (end - start) / 1e3

    def synchronize(self) -> None:
        """Wait for the GPU, if there is one."""
        if self._wait is not None:
            self._wait()


class EventTimer:
    """CUDA events on the stream that is current when the mark is made."""

    name = "event"
    batch_us = 200.0
    primed = True

    def __init__(self, device: torch.device) -> None:
        self._cuda = import_torch().cuda
        self._device = device

    def mark(self) -> Any:
        """An event in the current stream."""
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_us(self, start: Any, end: Any) -> float:
        """Device time between two marks, µs."""
        return float(start.elapsed_time(end)) * 1e3

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self._cuda.synchronize(self._device)


class GraphTimer(EventTimer):
    """Events around replays of a graph."""

    name = "graph"


class KernelTimer(EventTimer):
    """Events, until the kernels of a trace take the samples' place."""

    name = "kernel"


_ON_CUDA: dict[str, type[EventTimer]] = {
    "event": EventTimer,
    "graph": GraphTimer,
    "kernel": KernelTimer,
}


def make_timer(name: str | None, device: torch.device) -> Timer:
    """The timer called `name`; by default events on CUDA and the host clock elsewhere.

    Raises
    ------
    RecordingError
        One of CUDA's is asked for on another device.
    """
    if name is None:
        name = "event" if device.type == "cuda" else "wall"
    if name in _ON_CUDA:
        if device.type != "cuda":
            raise RecordingError(
                f"gpuperf: timer={name!r} needs a CUDA device, not {device}: take timer='wall'"
            )
        return _ON_CUDA[name](device)
    return WallTimer(device)
