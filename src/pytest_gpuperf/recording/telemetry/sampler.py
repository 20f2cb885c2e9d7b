"""A thread that samples one GPU while the workload runs.

Where there is no driver, no such device or no such counter, the value is absent and says why:
every error of NVML ends here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

from pytest_gpuperf.recording.telemetry.binding import (
    binding,
    initialized,
    is_fatal,
    is_lasting,
    reason_of,
)
from pytest_gpuperf.recording.telemetry.board import Board, UnknownDeviceError, open_board
from pytest_gpuperf.recording.telemetry.dcgm import DcgmReader, dcgm_reader, means
from pytest_gpuperf.recording.telemetry.dcgm_scrape import Place, ScrapeReader, scrape_reader
from pytest_gpuperf.recording.telemetry.gpm import METRICS as GPM_METRICS
from pytest_gpuperf.recording.telemetry.gpm import GpmReader, gpm_reader
from pytest_gpuperf.recording.telemetry.incidents import Incidents, incidents_of
from pytest_gpuperf.recording.telemetry.readings import (
    Read,
    Readings,
    clock_limit,
    memory_bandwidth,
    readings_of,
)
from pytest_gpuperf.recording.telemetry.series import Series
from pytest_gpuperf.recording.telemetry.tenants import other_users

FAST_S = 0.02
SLOW_S = 0.5
MOST_COST = 0.008
"""Share of a core at which the sampler slows itself down."""
_READY_S = 15.0
"""A driver that is being loaded, and DCGM's first row, take seconds."""
_LATE = f"NVML did not answer within {_READY_S:g} s"
_JOIN_S = 5.0
_ALSO_AT_THE_END = ("energy", "gpu_util", "nvlink_rx_total", "nvlink_tx_total")
"""Counters that look back: read once more when the workload has ended."""


@dataclass(slots=True)
class Watched:
    """What was seen in one window; filled by the sampler's thread, read by anyone.

    Attributes
    ----------
    series
        Readings by counter; GPM metrics stand at the end of the interval they are of.
    opening
        What the counters that tell of a moment said right before the window.
    whole
        GPM metrics over the whole window.
    constants
        ``clock_limit`` in MHz, ``memory_bandwidth`` in GB/s.
    counts
        Incidents and other processes.
    absent
        Why a counter is not there.
    begin_ns, end_ns
        The window, in ns since the epoch; 0 while there is none.
    asked_s, cost
        Time between two fast readings that was asked for; CPU time of the thread over the window's.
    lost
        Whether the GPU was lost meanwhile.
    """

    asked_s: float
    series: dict[str, Series] = field(default_factory=dict)
    opening: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    begin_ns: int = 0
    end_ns: int = 0
    cost: float = 0.0
    lost: bool = False
    whole_by_dcgm: bool = False
    """Whether ``whole`` is DCGM's, where the GPU has no GPM."""


class TelemetrySampler:
    """Samples one GPU in a thread between ``__enter__`` and ``__exit__``.

    Clock, power, energy and clock-event reasons are read at 50 Hz; what the driver refreshes or
    measures slowly, and what changes slowly, at 2 Hz; GPM as often as it says something new. The
    thread slows down rather than take more than 0.8% of a core. A counter that the device lacks
    is asked once; a lost GPU ends the sampling.

    Parameters
    ----------
    uuids
        What NVML may know the device by; none samples nothing.
    interval_s
        Time between two fast readings.
    dcgm
        Whether DCGM is asked for what GPM would tell, where there is no GPM: that takes a process.
    dcgm_url
        A dcgm-exporter that is then scraped instead.
    """

    def __init__(
        self,
        uuids: Sequence[str],
        *,
        interval_s: float = FAST_S,
        dcgm: bool = False,
        dcgm_url: str | None = None,
    ) -> None:
        self._uuids = tuple(uuids)
        self._dcgm = dcgm
        self._dcgm_url = dcgm_url
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self.watched = Watched(interval_s)
        self.late = False
        """Whether the driver took so long that nothing is sampled."""
        self.absent_reason: str | None = None
        """Why nothing was sampled, or nothing more; None where all went well."""

    def __enter__(self) -> TelemetrySampler:
        if not self._uuids:
            self.absent_reason = "the device has no UUID that NVML knows"
            return self
        self._thread = threading.Thread(target=self._run, name="gpuperf-nvml", daemon=True)
        self._thread.start()
        # Opening NVML takes the CPU: it must be over before anything is timed.
        if not self._ready.wait(_READY_S):
            # What begins in the middle of the window would pass for all of it.
            self.late = True
            self._stop.set()
            self.absent_reason = _LATE
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.watched.begin_ns:
            self.watched.end_ns = time.time_ns()
        self._stop.set()
        if self._thread is not None:
            # A hung driver must not hang the test: the thread is a daemon.
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        nvml = binding()
        try:
            with initialized(nvml):
                board = open_board(nvml, self._uuids)
                with (
                    gpm_reader(nvml, board) as gpm,
                    self._in_place_of(gpm, board, nvml) as dcgm,
                    incidents_of(nvml, board) as incidents,
                ):
                    loop = _Loop(nvml, board, gpm, incidents, self.watched)
                    loop.run(self._ready, self._stop)
                    if not isinstance(dcgm, str):
                        _take_over(dcgm, self.watched)
                    elif not isinstance(gpm, GpmReader):
                        self.watched.absent.update(dict.fromkeys(GPM_METRICS, f"{gpm}; {dcgm}"))
        except UnknownDeviceError as error:
            self.absent_reason = str(error)
        except nvml.NVMLError as error:
            self.absent_reason = str(error)
            lost = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED)
            self.watched.lost = getattr(error, "value", None) in lost
        finally:
            self._ready.set()

    @contextmanager
    def _in_place_of(
        self, gpm: GpmReader | str, board: Board, nvml: Any
    ) -> Iterator[DcgmReader | ScrapeReader | str]:
        """DCGM's reader where there is no GPM; or why there is none either."""
        if self._dcgm and self._dcgm_url and not isinstance(gpm, GpmReader):
            place = Place(str(nvml.nvmlDeviceGetUUID(board.gpu)), board.instance)
            with scrape_reader(self._dcgm_url, place) as scraped:
                yield scraped
        elif isinstance(gpm, GpmReader) or board.is_slice:
            yield "DCGM does not tell of slices"
        elif not self._dcgm:
            yield "DCGM is asked where a limit on a counter needs it"
        else:
            with dcgm_reader(self._uuids) as dcgm:
                yield dcgm


def _take_over(dcgm: DcgmReader | ScrapeReader, watched: Watched) -> None:
    """What DCGM saw of the window, in place of GPM's."""
    series = dcgm.window(watched.begin_ns, watched.end_ns or time.time_ns())
    watched.series |= series
    watched.whole = means(series)
    watched.whole_by_dcgm = True
    for name in GPM_METRICS:
        if name in series:
            watched.absent.pop(name, None)
        else:
            watched.absent[name] = dcgm.why_none()


class _Loop:
    """The thread's work, with NVML open."""

    def __init__(
        self, nvml: Any, board: Board, gpm: GpmReader | str, incidents: Incidents, watched: Watched
    ) -> None:
        self._nvml = nvml
        self._board = board
        self._gpm = gpm if isinstance(gpm, GpmReader) else None
        self._incidents = incidents
        self._watched = watched
        self._readings: Readings = readings_of(nvml, board)
        self._ticks = 0
        watched.absent.update(self._readings.absent)
        if not isinstance(gpm, GpmReader):
            watched.absent.update(dict.fromkeys(GPM_METRICS, gpm))

    def run(self, ready: threading.Event, stop: threading.Event) -> None:
        """Sample until told to stop."""
        try:
            self._open()
            self._watched.begin_ns = time.time_ns()
            self._until(ready, stop)
            self._close()
        finally:
            # A GPU that was lost leaves its last XIDs.
            self._watched.counts |= self._incidents.counts

    def _until(self, ready: threading.Event, stop: threading.Event) -> None:
        watched, readings = self._watched, self._readings
        begin_s = time.perf_counter()
        begin_cpu_s = time.thread_time()
        ready.set()
        fast_at = begin_s
        slow_at = begin_s + SLOW_S
        while True:
            now = time.perf_counter()
            if now >= fast_at:
                self._read(readings.fast)
                fast_at = now + self._paced(begin_cpu_s)
            if now >= slow_at:
                self._read(readings.slow)
                self._incidents.collect()
                slow_at = now + SLOW_S
            self._step_gpm()
            if stop.wait(max(0.0, min(fast_at, slow_at) - time.perf_counter())):
                break
        watched.cost = (time.thread_time() - begin_cpu_s) / (time.perf_counter() - begin_s)

    def _open(self) -> None:
        """Ask everything once, which tells what there is, and forget what it said of before."""
        self._constants()
        self._read(self._readings.slow)
        self._read(self._readings.fast)
        read = dict(self._watched.series)
        self._watched.opening = {name: series.values[-1] for name, series in read.items()}
        self._watched.series.clear()
        self._watched.series |= {n: s for n, s in read.items() if n.endswith("_total")}
        if self._gpm is not None:
            self._gpm.begin()

    def _close(self) -> None:
        """Read once more what looks back over the window."""
        watched = self._watched
        both = {**self._readings.fast, **self._readings.slow}
        self._read({name: read for name, read in both.items() if name in _ALSO_AT_THE_END})
        self._incidents.collect()
        self._step_gpm()
        if self._gpm is not None:
            watched.whole = self._gpm.whole()
            watched.absent.update(self._gpm.absent)
        watched.counts |= other_users(self._nvml, self._board, watched.begin_ns)

    def _constants(self) -> None:
        asked = {"clock_limit": clock_limit, "memory_bandwidth": memory_bandwidth}
        for name, ask in asked.items():
            value = self._asked(name, partial(ask, self._nvml, self._board))
            if value is not None:
                self._watched.constants[name] = value

    def _paced(self, begin_cpu_s: float) -> float:
        """Seconds to the next fast reading: longer than asked where the cost would be above ours.

        The cost is all that the thread has taken so far, spread over its fast readings.
        """
        self._ticks += 1
        tick_s = (time.thread_time() - begin_cpu_s) / self._ticks
        return max(self._watched.asked_s, tick_s / MOST_COST)

    def _step_gpm(self) -> None:
        if self._gpm is None or self._gpm.due_in() > 0:
            return
        for name, value in self._gpm.step().items():
            self._keep(name, value)

    def _read(self, readings: dict[str, Read]) -> None:
        """Take one value of each of `readings`; those that the device lacks are removed."""
        for name, read in tuple(readings.items()):
            value = self._asked(name, read, readings)
            if value is not None:
                self._keep(name, value)

    def _keep(self, name: str, value: float) -> None:
        series = self._watched.series.get(name)
        if series is None:
            series = self._watched.series[name] = Series()
        series.add(time.time_ns(), value)

    def _asked(
        self, name: str, read: Read, readings: dict[str, Read] | None = None
    ) -> float | None:
        """The value, or None with the reason noted; asked no more where none will ever come."""
        try:
            value = float(read())
        except (AttributeError, self._nvml.NVMLError) as error:
            if is_fatal(self._nvml, error):
                raise
            self._watched.absent[name] = reason_of(error)
            if readings is not None and is_lasting(self._nvml, error):
                del readings[name]
            return None
        if name in self._watched.absent:
            del self._watched.absent[name]
        return value
