"""The history's series with their changes of level, and both as the JSON of ``gpuperf history``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.change_point import changes
from pytest_gpuperf.baselines.history import series

if TYPE_CHECKING:
    from gpuperf_analyzers.change_point import Change
    from pytest_gpuperf.baselines.history import History, Line, SeriesName


@dataclass(frozen=True, slots=True)
class Told:
    """One series: its name, lines, and changes of level."""

    name: SeriesName
    lines: tuple[Line, ...]
    changes: tuple[Change, ...]


def levels(name: SeriesName, lines: Sequence[Line]) -> Told:
    """The series with its changes; counts that never varied change by any difference."""
    exact = all(line.exact for line in lines)
    return Told(name, tuple(lines), changes([line.value for line in lines], exact=exact))


def history_json(told: Sequence[Told]) -> dict[str, Any]:
    """The series as plain JSON types."""
    return {"schema": 1, "series": [_series(each) for each in told]}


def whole_history(history: History) -> dict[str, Any]:
    """Every series of `history` as plain JSON types."""
    return history_json([levels(name, lines) for name, lines in series(history)])


def _series(told: Told) -> dict[str, Any]:
    environment, test, name, metric = told.name
    return {
        "environment": environment,
        "test": test,
        "name": name,
        "metric": metric,
        "runs": [
            {"at": line.at, "commit": line.commit, "value": line.value, "n": line.n}
            for line in told.lines
        ],
        "changes": [
            {
                "index": c.index,
                "before": c.before,
                "after": c.after,
                "relative": c.relative,
                "p": c.p,
                "commit": told.lines[c.index].commit,
                "commit_before": told.lines[c.index - 1].commit,
            }
            for c in told.changes
        ],
    }
