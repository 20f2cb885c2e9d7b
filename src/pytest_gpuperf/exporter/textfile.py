"""A textfile for node_exporter's collector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_gpuperf.report.json_report import write_whole


def write_textfile(document: Mapping[str, Any], path: Path) -> Path:
    """Write a report's document to `path` in Prometheus' text format, whole or not at all.

    The label ``report`` is the file's stem, so that two files in one folder do not clash:
    node_exporter refuses both of two equal series.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    from pytest_gpuperf.exporter.results import Family, families

    class Once:
        def collect(self) -> list[Family]:
            return families([(path.stem, document)])

    registry = CollectorRegistry()
    registry.register(Once())
    write_whole(path, generate_latest(registry).decode())
    return path
