"""Errors of the hardware within the window: XIDs as events, ECC errors as differences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_gpuperf.recording.telemetry.binding import is_fatal
from pytest_gpuperf.recording.telemetry.board import Board


class Incidents:
    """Counts what goes wrong on one board from its making on."""

    def __init__(self, nvml: Any, board: Board) -> None:
        self._nvml = nvml
        self._gpu = board.gpu
        self._events: Any = None
        self._ecc: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        """``xid:NUMBER``, ``ecc_corrected`` and ``ecc_uncorrected``, where there were any."""

    def open(self) -> None:
        """Begin to watch; what the device cannot tell is left out."""
        nvml = self._nvml
        self._ecc = self._ecc_counts()
        try:
            self._events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(
                self._gpu, nvml.nvmlEventTypeXidCriticalError, self._events
            )
        except nvml.NVMLError as error:
            self.close()
            if is_fatal(nvml, error):
                raise

    def close(self) -> None:
        """Let go of the events."""
        if self._events is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._events)
            self._events = None

    def collect(self) -> None:
        """Count what happened since; never waits."""
        nvml = self._nvml
        while self._events is not None:
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError as error:
                if is_fatal(nvml, error):
                    raise
                break  # a timeout: there is none
            name = f"xid:{event.eventData}"
            self.counts[name] = self.counts.get(name, 0) + 1
        for name, count in self._ecc_counts().items():
            if count > self._ecc.get(name, count):
                self.counts[name] = count - self._ecc[name]

    def _ecc_counts(self) -> dict[str, int]:
        """Errors since the driver was loaded."""
        nvml = self._nvml
        kinds = {
            "ecc_corrected": nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
            "ecc_uncorrected": nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        }
        found = {}
        for name, kind in kinds.items():
            try:
                count = nvml.nvmlDeviceGetTotalEccErrors(self._gpu, kind, nvml.NVML_VOLATILE_ECC)
            except nvml.NVMLError as error:
                if is_fatal(nvml, error):
                    raise
                continue
            found[name] = int(count)
        return found


@contextmanager
def incidents_of(nvml: Any, board: Board) -> Iterator[Incidents]:
    """What goes wrong on `board` within the block."""
    watched = Incidents(nvml, board)
    watched.open()
    try:
        yield watched
    finally:
        watched.close()
