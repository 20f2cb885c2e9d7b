"""What a sweep found: every point, the best one, and how far the numbers can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.sweep.grid import Grid, point_words
from pytest_gpuperf.sweep.points import MEASURED, PointResult, Settings

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
# 1: first version.
_MACHINE = ("device", "cpu_model", "driver", "torch", "cuda", "hip")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A sweep, whole or ended early.

    Attributes
    ----------
    step
        The function as the user named it.
    grid, settings
        What was swept, and how each point was run.
    environment
        Versions and names of the machine that swept.
    results
        The points that are done, in the order of the grid.
    stopped
        ``interrupted`` where Ctrl-C ended it, or what else did; "" where it came to its end.
    replayed
        Points that were done by earlier runs of it.
    """

    step: str
    grid: Grid
    settings: Settings
    environment: Mapping[str, str]
    results: tuple[PointResult, ...]
    stopped: str = ""
    replayed: int = 0

    @property
    def judged_by(self) -> str:
        """The metric of the best point: throughput where items are known, else step time."""
        counted = any(r.number("throughput") is not None for r in self.results)
        return "throughput" if counted else "step_time"

    def best(self) -> PointResult | None:
        """The point of the highest throughput, or of the shortest step where no items are known."""
        metric = self.judged_by
        known = [(value, r) for r in self.results if (value := r.number(metric)) is not None]
        pick = max if metric == "throughput" else min
        return pick(known, key=lambda pair: pair[0])[1] if known else None

    def not_apart(self) -> list[PointResult]:
        """Other points whose interval meets the best one's, or that have none."""
        best, metric = self.best(), self.judged_by
        if best is None:
            return []
        bounds = best.metrics[metric]["interval"]
        return [
            r
            for r in self.results
            if r is not best
            and r.number(metric) is not None
            and _meet(bounds, r.metrics[metric]["interval"])
        ]

    def counts(self) -> dict[str, int]:
        """How many points ended in each way."""
        return dict(Counter(r.status for r in self.results))

    def notes(self) -> list[str]:
        """What is to be known of the numbers together."""
        found = []
        machines = {
            tuple(r.environment.get(k, "") for k in _MACHINE)
            for r in self.results
            if r.status == MEASURED
        }
        if len(machines) > 1:
            found.append(
                f"the points were measured on {len(machines)} different machines: "
                "their times do not compare"
            )
        if self.judged_by == "step_time" and self.results:
            found.append(
                "no items are known (--items), so that a shorter step may just do less work"
            )
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row a point: its settings, how it ended, and each metric with its interval."""
        import pandas as pd

        return pd.DataFrame([_row(r) for r in self.results])


def _meet(first: list[float] | None, second: list[float] | None) -> bool:
    if first is None or second is None:
        return True
    return first[0] <= second[1] and second[0] <= first[1]


def _row(result: PointResult) -> dict[str, Any]:
    row: dict[str, Any] = {**result.values, "status": result.status, "detail": result.detail}
    for name, value in result.metrics.items():
        low, high = value["interval"] or (None, None)
        row |= {name: value["value"], f"{name}_low": low, f"{name}_high": high}
    return row


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The sweep as plain JSON types."""
    best = outcome.best()
    return {
        "kind": "sweep",
        "schema": SCHEMA,
        "step": outcome.step,
        "axes": outcome.grid.to_json(),
        "settings": asdict(outcome.settings),
        "environment": dict(outcome.environment),
        "points": len(outcome.grid),
        "done": len(outcome.results),
        "counts": outcome.counts(),
        "stopped": outcome.stopped,
        "replayed": outcome.replayed,
        "judged_by": outcome.judged_by,
        "best": None if best is None else {"index": best.index, "values": best.values},
        "not_apart_from_best": [r.index for r in outcome.not_apart()],
        "notes": outcome.notes(),
        "results": [r.to_json() for r in outcome.results],
    }


def verdict(outcome: Outcome) -> str:
    """The best point in words; why there is none where there is none."""
    best = outcome.best()
    if best is None:
        return "no point was measured"
    what = "highest throughput" if outcome.judged_by == "throughput" else "shortest step"
    others = outcome.not_apart()
    text = f"{what}: {point_words(best.values)}"
    if not others:
        return text
    named = ", ".join(point_words(r.values) for r in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f"{text}; not told apart from {named}{more}: their intervals meet"
