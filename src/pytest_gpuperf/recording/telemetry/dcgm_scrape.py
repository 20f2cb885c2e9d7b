"""DCGM's counters from a dcgm-exporter that is already there, for GPUs that have no GPM.

The exporter shows what DCGM measured last, over an interval of its own that no scrape tells: it is
found from the times at which what the exporter shows of the device changes. A value counts where
the two changes before it lie in the window: its interval began at the second last one at the
earliest, even with an exporter that shows values one interval late.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException

from gpuperf_analyzers.foreign.dcgm import FIELDS, Sample, samples_of
from pytest_gpuperf.recording.telemetry.gpm import METRICS
from pytest_gpuperf.recording.telemetry.series import Series

POLL_S = 0.1
ANSWER_S = 2.0
LARGEST = 16 << 20
"""Bytes of one scrape that are read."""
_CHANGES_BEFORE = 2
_FAILURES = (OSError, ValueError, HTTPException)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is found in a scrape.

    Attributes
    ----------
    uuid
        Of the whole GPU: slices are labelled with it too.
    instance
        NVML's id of the MIG slice's GPU instance; None for the whole GPU.
    """

    uuid: str
    instance: int | None = None

    def holds(self, sample: Sample) -> bool:
        """Whether `sample` is of this very device, and not of a slice of it or of the whole."""
        instance = sample.labels.get("GPU_I_ID", "")
        wanted = "" if self.instance is None else str(self.instance)
        return sample.labels.get("UUID") == self.uuid and instance == wanted


@dataclass(frozen=True, slots=True)
class _Change:
    """When the exporter was first seen to show `values`, and last asked before that.

    It began to show them somewhere in between: a busy machine may ask late.
    """

    after_ns: int
    at_ns: int
    values: dict[str, float] = field(default_factory=dict)


class ScrapeReader:
    """Scrapes one exporter ten times a second, and keeps what changed of one device."""

    def __init__(
        self, url: str, place: Place, first: dict[str, float], first_asked_ns: int
    ) -> None:
        self._url, self._place = url, place
        self._shown, self._asked_ns = first, first_asked_ns
        self._changes: list[_Change] = []
        self._failure = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="gpuperf-dcgm-scrape", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the scraping."""
        self._stop.set()
        self._thread.join(ANSWER_S + POLL_S)

    def window(self, begin_ns: int, end_ns: int) -> dict[str, Series]:
        """The values whose interval lies within the window, by metric."""
        changes = [c for c in self._changes if begin_ns <= c.after_ns and c.at_ns <= end_ns]
        found: dict[str, Series] = {}
        for change in changes[_CHANGES_BEFORE:]:
            for name, value in metrics_in(change.values).items():
                found.setdefault(name, Series()).add(change.at_ns, value)
        return found

    def why_none(self) -> str:
        """Why a metric has no value in the window."""
        if self._failure:
            return self._failure
        return (
            f"the exporter at {self._url} refreshed {len(self._changes)} times while it was "
            f"watched, and {_CHANGES_BEFORE + 1} are needed: start dcgm-exporter with a shorter "
            "--collect-interval (100 ms is enough)"
        )

    def _read(self) -> None:
        while not self._stop.wait(POLL_S):
            asked_ns = time.time_ns()
            try:
                shown = _shown(self._url, self._place)
            except _FAILURES as error:
                self._failure = f"{self._url} stopped answering: {error}"
                continue
            if shown != self._shown:
                self._changes.append(_Change(self._asked_ns, time.time_ns(), shown))
                self._shown = shown
            self._asked_ns = asked_ns


def metrics_in(shown: dict[str, float]) -> dict[str, float]:
    """Our metrics of what a scrape shows of a device, by DCGM's fields, in our units."""
    told = {FIELDS[name][0]: value * FIELDS[name][1] for name, value in shown.items()
            if name in FIELDS}  # fmt: skip
    return {name: value for name, value in told.items() if name in METRICS}


@contextmanager
def scrape_reader(url: str, place: Place) -> Iterator[ScrapeReader | str]:
    """What reads the device's counters at `url`, or the reason that nothing does."""
    asked_ns = time.time_ns()
    try:
        first = _shown(url, place)
    except _FAILURES as error:
        yield f"no dcgm-exporter answers at {url}: {error}"
        return
    if not first:
        yield f"the exporter at {url} shows nothing of {_named(place)}"
    elif not metrics_in(first):
        yield (
            f"the exporter at {url} shows no profiling counters of {_named(place)}: its list of "
            "fields must have DCGM_FI_PROF_SM_ACTIVE and the like (blanks are no values)"
        )
    else:
        reader = ScrapeReader(url, place, first, asked_ns)
        try:
            yield reader
        finally:
            reader.close()


def _named(place: Place) -> str:
    return place.uuid if place.instance is None else f"slice {place.instance} of {place.uuid}"


# Neither a proxy, which is for other hosts, nor files: only what was asked for.
_OPENER = urllib.request.OpenerDirector()
for _handler in (
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPErrorProcessor,
):
    _OPENER.add_handler(_handler())


def _shown(url: str, place: Place) -> dict[str, float]:
    """What the exporter shows of the device by DCGM's field: no blanks, no counters of bytes."""
    opened = _OPENER.open(url, timeout=ANSWER_S)
    if opened is None:
        raise ValueError("is no address of a web server")
    with opened as answer:
        body = answer.read(LARGEST + 1)
    if len(body) > LARGEST:
        raise ValueError(f"more than {LARGEST >> 20} MiB in a scrape")
    lines = [
        line
        for line in body.decode("utf-8", "replace").splitlines()
        if line.startswith("# TYPE") or place.uuid in line
    ]
    return {s.field: s.value for s in samples_of(lines) if place.holds(s) and not s.counter}
