"""The sweep's journal: which points are done, and with what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_gpuperf.recording.line_journal import JournalError, LineJournal
from pytest_gpuperf.sweep.grid import Grid
from pytest_gpuperf.sweep.points import PointResult, Settings

SCHEMA = 1
# 1: first version.
__all__ = ["SCHEMA", "JournalError", "SweepJournal", "header"]


def header(
    step: str, sha256: str, grid: Grid, settings: Settings, environment: Mapping[str, str]
) -> dict[str, Any]:
    """What must be equal for a sweep to be continued: step, axes, settings, machine."""
    # The commit changes with every file of the project; the step's own file is held to its hash.
    machine = {k: v for k, v in environment.items() if k not in {"commit", "threads"}}
    return {
        "schema": SCHEMA,
        "step": step,
        "step_sha256": sha256,
        # As pairs: the order of the axes is the order of the points.
        "axes": [[name, list(values)] for name, values in grid.axes.items()],
        "settings": asdict(settings),
        **machine,
    }


class SweepJournal:
    """Results by the point's index, each written as it is known."""

    def __init__(self, path: Path, head: Mapping[str, Any], grid: Grid) -> None:
        self._lines = LineJournal(path, head, "sweep", durable=True)
        self._points = grid.points()
        self.results: dict[int, PointResult] = {}
        self.replayed = 0

    def begin(self) -> Path | None:
        """Start anew; where an unfinished journal was moved aside to, if there was one."""
        return self._lines.begin()

    def resume(self) -> None:
        """Take over the points that are done.

        Raises
        ------
        JournalError
            It is not there, of another sweep, damaged, or being written.
        """
        for number, line in self._lines.resume():
            found = self._result(line)
            if found is None or found.index in self.results:
                raise self._lines.damaged(number)
            self.results[found.index] = found
        self.replayed = len(self.results)

    def _result(self, line: Mapping[str, Any] | None) -> PointResult | None:
        """The point's result on a line; None where it holds none of this grid's."""
        try:
            found = PointResult(**(line or {}))
            right = 0 <= found.index < len(self._points) and isinstance(found.metrics, dict)
            right = right and found.values == self._points[found.index]
            right = right and all(isinstance(m, dict) for m in found.metrics.values())
        except TypeError:
            return None
        return found if right and isinstance(found.status, str) else None

    def add(self, result: PointResult) -> None:
        """Note a point as done."""
        self._lines.write(result.to_json())
        self.results[result.index] = result

    def close(self, *, finished: bool) -> None:
        """Close the file, and remove it where the sweep came to its end."""
        self._lines.close(finished=finished)
