"""Reports on disk, read again when they change."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from prometheus_client.core import GaugeMetricFamily

from pytest_gpuperf.exporter.naming import label
from pytest_gpuperf.exporter.results import Family, families

LARGEST = 64 << 20
"""Bytes of a report that is read."""
MOST_FILES = 100
"""Reports of a watched folder that are exported: the newest."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What a file said when it was read last; a document of None could not be read."""

    stamp: tuple[int, int]
    document: Mapping[str, Any] | None


class ReportFiles:
    """A collector of the files that were named and of those in a watched folder.

    Parameters
    ----------
    paths
        Reports, or folders of a ``report.json``.
    watch
        A folder whose ``*.json``, at any depth up to three, are looked through at each scrape.
    """

    def __init__(self, paths: Sequence[str], watch: str | None = None) -> None:
        self._paths = [Path(p) / "report.json" if Path(p).is_dir() else Path(p) for p in paths]
        self._watch = None if watch is None else Path(watch)
        self._read: dict[Path, _Read] = {}
        self._lock = Lock()

    def collect(self) -> list[Family]:
        """The families of what is there now; a report that is gone or broken makes no values."""
        readable = GaugeMetricFamily(
            "gpuperf_report_readable", "Whether the report could be read.", labels=["report"]
        )
        reports = []
        with self._lock:
            for name, path in self._files():
                document = self._document(path)
                if document is None and path not in self._paths:
                    continue  # other JSON in the folder is no broken report
                readable.add_metric([label(name)], float(document is not None))
                if document is not None:
                    reports.append((name, document))
        return [readable, *families(reports)]

    def _files(self) -> Iterable[tuple[str, Path]]:
        yield from ((str(path), path) for path in self._paths)
        if self._watch is None:
            return
        found = [p for depth in ("", "*/", "*/*/") for p in self._watch.glob(f"{depth}*.json")]
        newest = sorted((p for p in found if p.is_file()), key=_modified, reverse=True)
        # A file that is looked through and is no report does not take a report's place.
        reports = (p for p in newest if p not in self._paths and self._document(p) is not None)
        for _, path in zip(range(MOST_FILES), reports, strict=False):
            yield os.fspath(path.relative_to(self._watch).with_suffix("")), path

    def _document(self, path: Path) -> Mapping[str, Any] | None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._read.get(path)
            if known is None or known.stamp != stamp:
                regular = path.is_file() and status.st_size <= LARGEST
                known = self._read[path] = _Read(stamp, _parsed(path) if regular else None)
        except OSError:
            self._read.pop(path, None)
            return None
        return known.document


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _parsed(path: Path) -> Mapping[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    is_report = isinstance(document, dict) and isinstance(document.get("results"), list)
    return document if is_report and document.get("schema") == 1 else None
