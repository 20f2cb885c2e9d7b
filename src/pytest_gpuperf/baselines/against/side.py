"""What stands in each of the two processes of a pair: it measures what it is told, and reports.

Registered by the door where the environment names an order. Nothing is judged against the other
side here: that takes both.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuperf_analyzers.limits import Judgement, Verdict
from pytest_gpuperf.baselines.against.processes import SIDE
from pytest_gpuperf.session.baseline import Compared
from pytest_gpuperf.session.collecting import DECLARED

if TYPE_CHECKING:
    from pytest_gpuperf.session.baseline import Observed
    from pytest_gpuperf.session.run import Run

INVALID = "invalid"
"""Key that an observation of a side has beside a baseline's: metrics that cannot be judged."""


class ObservedOnly:
    """Takes the place of stored baselines: observes everything, and judges nothing."""

    def compared(self, observed: Observed) -> Compared:
        """`observed` as a baseline would keep it, with what is INVALID."""
        from pytest_gpuperf.baselines.observation import observation_of

        observation = {
            **observation_of(observed).to_json(),
            INVALID: dict(observed.analysis.invalid),
        }
        waiting = tuple(
            Judgement(m.text, m.metric, m.direction, m.unit, Verdict.UNMEASURED,
                      reason="one side of a comparison")
            for m in observed.limits
        )  # fmt: skip
        return Compared(waiting, observation=observation)


class Side:
    """The pytest plugin of one process."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._order = order
        self._results: dict[str, dict[str, Any]] = {}
        self._others: list[str] = []
        self._missing: list[str] = []
        self._errors: dict[str, str] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the tests that are asked for, in their order."""
        asked: list[str] = self._order["tests"]
        found = {item.nodeid: item for item in items if DECLARED in item.stash}
        self._missing = [test for test in asked if test not in found]
        self._others = [test for test in found if test not in set(asked)]
        kept = [found[test] for test in asked if test in found]
        dropped = [item for item in items if item not in set(kept)]
        items[:] = kept
        if dropped:
            config.hook.pytest_deselected(items=dropped)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file could not be collected."""
        if report.failed:
            self._errors[report.nodeid] = last_line(report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what each test measured, or why it did not."""
        result = self._results.setdefault(
            report.nodeid, {"outcome": "passed", "said": "", "records": [], "observations": []}
        )
        if report.outcome != "passed":
            result["outcome"] = report.outcome
            if report.skipped and isinstance(report.longrepr, tuple):
                result["said"] = str(report.longrepr[2]).removeprefix("Skipped: ")
            else:
                result["said"] = last_line(report.longreprtext)
        result["records"] += getattr(report, "gpuperf_records", [])
        result["observations"] += getattr(report, "gpuperf_observations", [])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the report, and let the other process go on."""
        from pytest_gpuperf.baselines.files import write_whole
        from pytest_gpuperf.recording.turns import turns

        report = {
            "tests": self._results,
            "others": self._others,
            "missing": self._missing,
            "errors": self._errors,
            "modules": modules() if self._order["details"] else {},
        }
        write_whole(Path(self._order["out"]), json.dumps(report).encode("ascii"))
        mine = turns()
        if mine is not None:
            mine.leave()


def last_line(text: str) -> str:
    """The line of a traceback that says what happened."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or [line.strip() for line in lines] or ["no reason was given"])[-1]


def modules() -> dict[str, str]:
    """The file of every module that is loaded from one."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            found[name] = os.path.realpath(file)
    return found


def register(config: pytest.Config, run: Run) -> bool:
    """Become a side if the environment says so; whether it did."""
    path = os.environ.pop(SIDE, "")
    if not path:
        return False
    from pytest_gpuperf.ranks.lifeline import end_group_at_eof
    from pytest_gpuperf.recording.turns import turns

    turns()  # before anything of the user's could inherit its pipes
    order = json.loads(Path(path).read_text(encoding="utf-8"))
    os.set_inheritable(int(order["lifeline"]), False)
    end_group_at_eof(int(order["lifeline"]))
    run.make_baselines = lambda _: ObservedOnly()
    config.pluginmanager.register(Side(order), "gpuperf-side")
    return True
