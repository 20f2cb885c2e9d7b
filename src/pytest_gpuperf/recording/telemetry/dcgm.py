"""DCGM's profiling counters, for GPUs that have no GPM, where DCGM is installed and running.

``dcgmi`` is asked, which ships with DCGM and talks to its host engine: it prints one row of
counters every 100 ms. Each row is of the interval before it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

from pytest_gpuperf.recording.telemetry.series import Series

FIELDS = {
    "sm_active": (1002, 1.0),
    "sm_occupancy": (1003, 1.0),
    "tensor_active": (1004, 1.0),
    "dram_active": (1005, 1.0),
    "fp64_active": (1006, 1.0),
    "fp32_active": (1007, 1.0),
    "fp16_active": (1008, 1.0),
    "nvlink_tx": (1011, 1e-9),
    "nvlink_rx": (1012, 1e-9),
}
"""Metric: DCGM's field, in the order asked, and the factor from its unit (a share, bytes/s)."""

NOT_INSTALLED = "DCGM, which could tell it, is not installed"
_INTERVAL_MS = 100
_MOST_ROWS = 6000
_ANSWER_S = 5.0
_FIRST_ROW_S = 2.0
_ROW = re.compile(r"^GPU\s+\d+\s+(?P<values>.*)$")
_LISTED = re.compile(r"^\|\s*(?P<id>\d+)\s*\|")
_UUID = re.compile(r"Device UUID:\s*(?P<uuid>\S+)")


class DcgmReader:
    """Keeps the rows that ``dcgmi dmon`` prints of one GPU."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._series = {name: Series() for name in FIELDS}
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._read, name="gpuperf-dcgm", daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        """Whether a row with numbers came; the first rows have none."""
        return self._first.wait(_FIRST_ROW_S)

    def close(self) -> None:
        """End the program that prints."""
        self._process.terminate()
        try:
            self._process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join(_ANSWER_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def why_none(self) -> str:
        """Why a metric has no value in the window."""
        return "DCGM gave no value in the window"

    def window(self, begin_ns: int, end_ns: int) -> dict[str, Series]:
        """The rows whose interval lies within the window."""
        first_ns = begin_ns + _INTERVAL_MS * 1_000_000
        found: dict[str, Series] = {}
        for name, series in self._series.items():
            for at_ns, value in series:
                if first_ns <= at_ns <= end_ns:
                    found.setdefault(name, Series()).add(at_ns, value)
        return found

    def _read(self) -> None:
        for line in self._process.stdout or ():
            row = _ROW.match(line.strip())
            if row is None:
                continue
            at_ns = time.time_ns()
            words = row["values"].split()
            for (name, (_, factor)), word in zip(FIELDS.items(), words, strict=False):
                try:
                    value = float(word)
                except ValueError:  # N/A: the device has it not, or not yet
                    continue
                self._series[name].add(at_ns, value * factor)
                self._first.set()


def means(series: dict[str, Series]) -> dict[str, float]:
    """Each metric over the whole window: its rows are equally long."""
    return {name: fmean(found.values) for name, found in series.items() if found}


@contextmanager
def dcgm_reader(uuids: Sequence[str]) -> Iterator[DcgmReader | str]:
    """What reads the counters of the GPU with one of `uuids`, or the reason that none does."""
    program = shutil.which("dcgmi")
    if program is None:
        yield NOT_INSTALLED
        return
    gpu = _gpu_id(program, uuids)
    if isinstance(gpu, str):
        yield gpu
        return
    fields = ",".join(str(field) for field, _ in FIELDS.values())
    command = [program, "dmon", "-i", str(gpu), "-e", fields, "-d", str(_INTERVAL_MS),
               "-c", str(_MOST_ROWS)]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    reader = DcgmReader(process)
    try:
        yield reader if reader.wait() else "DCGM gives no profiling counters of this device"
    finally:
        reader.close()


def _gpu_id(program: str, uuids: Sequence[str]) -> int | str:
    """DCGM's number of the GPU, or why it has none."""
    try:
        done = subprocess.run(
            [program, "discovery", "-l"],
            capture_output=True, text=True, timeout=_ANSWER_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"DCGM does not answer: {error}"
    number: int | None = None
    for line in done.stdout.splitlines():
        listed = _LISTED.match(line)
        if listed is not None:
            number = int(listed["id"])
        uuid = _UUID.search(line)
        if uuid is not None and uuid["uuid"] in uuids and number is not None:
            return number
    said = " ".join((done.stderr or done.stdout).split())[:120]
    return f"DCGM does not list the device: {said}" if said else "DCGM does not list the device"
