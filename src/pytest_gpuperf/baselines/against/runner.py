"""Pairs of processes until every test is decided, or as many as were allowed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import counted
from gpuperf_analyzers.regression import Schedule
from pytest_gpuperf.baselines.against.imports import (
    dependency_notes,
    extension_notes,
    same_code,
    version_notes,
)
from pytest_gpuperf.baselines.against.judging import Comparison
from pytest_gpuperf.baselines.against.processes import Told, run_pair
from pytest_gpuperf.baselines.against.sides import HERE, THERE, Side
from pytest_gpuperf.baselines.against.worktree import AgainstError, changed_files, is_dirty

if TYPE_CHECKING:
    from gpuperf_analyzers.limits import Limit
    from gpuperf_analyzers.metrics import Metric

_FIRST_S = 600.0
_EACH_S = 120.0
_TIMES_FIRST = 10.0
_LOST_IN_A_ROW = 2
"""Pairs without a value of any test, one after the other, at which the comparison ends."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared, and with how much.

    Attributes
    ----------
    sides
        By name.
    top, tree
        Roots of the working tree and of the revision's worktree.
    commit, title
        The revision's hash, and as it is told.
    pairs
        Most pairs.
    own_environment
        Whether the revision has an environment of its own.
    """

    sides: Mapping[str, Side]
    top: Path
    tree: Path
    commit: str
    title: str
    pairs: int
    own_environment: bool = False


def compare(
    plan: Plan,
    limits: Mapping[str, Sequence[Limit]],
    metrics: Mapping[str, Metric],
    folder: Path,
    say: Callable[[str], None],
) -> Comparison:
    """Everything that was measured and decided.

    Parameters
    ----------
    plan
        What is compared.
    limits
        Of each test, those against a baseline; tests without any are measured in one pair.
    metrics
        Every metric by name.
    folder
        An empty one for what processes write.
    say
        Called with a line of progress.

    Raises
    ------
    AgainstError
        A side cannot run its tests at all.
    """
    found = Comparison(limits, metrics, plan.title)
    most = f"at most {counted(plan.pairs, 'pair')}" if any(_regressions(limits)) else "1 pair"
    many = "1 test" if len(limits) == 1 else f"{len(limits)} tests"
    say(f"{many} against {plan.title}: {most} of processes in alternating order")
    first = _pair(plan, 0, list(limits), folder, timeout_s=_FIRST_S + _EACH_S * len(limits))
    for name in (HERE, THERE):
        if first[name].problem:
            raise AgainstError(f"the tests of {plan.sides[name].title} cannot be run: its pytest "
                               f"{first[name].problem}")  # fmt: skip
    _take_in(found, list(limits), first)
    found.notes += _notes(plan, first)
    found.unfit = _unfit(plan, first)
    found.pairs_run = 1
    if not found.unfit:
        _until_decided(found, plan, folder, first, say)
    return found


def _regressions(limits: Mapping[str, Sequence[Limit]]) -> list[str]:
    return [t for t, several in limits.items() if any(m.direction == "regression" for m in several)]


def _until_decided(
    found: Comparison, plan: Plan, folder: Path, first: Mapping[str, Told],
    say: Callable[[str], None],
) -> None:  # fmt: skip
    timeout_s = _FIRST_S + _TIMES_FIRST * max(told.seconds for told in first.values())
    open_tests = list(dict.fromkeys(test for test, _, _ in found.pairs))
    lost = 0
    for look in Schedule(plan.pairs):
        while open_tests and found.pairs_run < look.pairs and lost < _LOST_IN_A_ROW:
            told = _pair(plan, found.pairs_run, open_tests, folder, timeout_s=timeout_s)
            found.pairs_run += 1
            lost = 0 if _take_in(found, open_tests, told) else lost + 1
        if not open_tests:
            return
        found.look(look)
        open_tests = found.open_tests()
        decided = len(found.decisions) - sum(d.more for d in found.decisions.values())
        whole = counted(len(found.decisions), "comparison")
        say(f"{counted(found.pairs_run, 'pair')}: {decided} of {whole} decided")
        if lost >= _LOST_IN_A_ROW:
            why = next(iter(found.unusable.values()), "no reason was given").lstrip("\0")
            found.notes.append(f"{lost} pairs in a row gave no value ({why}): no more were run")
            return


def _pair(
    plan: Plan, index: int, tests: Sequence[str], folder: Path, *, timeout_s: float
) -> dict[str, Told]:
    """Run pair number `index`; the side that begins alternates."""
    order = (THERE, HERE) if index % 2 == 0 else (HERE, THERE)
    place = folder / str(index)
    place.mkdir()
    try:
        return run_pair(
            [plan.sides[name] for name in order], tests, place,
            roots=(plan.top, plan.tree), details=index == 0, timeout_s=timeout_s,
        )  # fmt: skip
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _take_in(found: Comparison, tests: Sequence[str], told: Mapping[str, Told]) -> bool:
    """Add what a pair measured; whether that was anything."""
    before = sum(map(len, found.pairs.values()))
    for test in tests:
        found.add(test, {name: _result(told[name], test) for name in (HERE, THERE)})
    return sum(map(len, found.pairs.values())) > before


def _result(told: Told, test: str) -> Mapping[str, Any]:
    """What one process says of one test; nothing where it does not have it."""
    if told.problem:
        return {"outcome": "failed", "said": told.problem}
    result: Mapping[str, Any] | None = told.report["tests"].get(test)
    if result is not None:
        return result
    file = test.partition("::")[0]
    error = told.report["errors"].get(file)
    return {"outcome": "failed", "said": error} if error else {}


def _notes(plan: Plan, first: Mapping[str, Told]) -> list[str]:
    here, there = first[HERE].report, first[THERE].report
    changed = changed_files(plan.top, plan.commit)
    notes = []
    if is_dirty(plan.top):
        notes.append("the working tree has changes that are in no commit: they are measured")
    if not changed:
        notes.append(f"no file differs from {plan.title}: the same code is compared with itself")
    if there["others"]:
        more = f" and {len(there['others']) - _SHOWN} more" if len(there["others"]) > _SHOWN else ""
        gone = ", ".join(there["others"][:_SHOWN])
        notes.append(f"tests of {plan.title} that are not selected here: {gone}{more}")
    if (plan.tree / ".gitmodules").is_file():
        notes.append("submodules are not checked out at the revision")
    notes += dependency_notes(plan.top, plan.commit, changed, own_environment=plan.own_environment)
    notes += extension_notes(here["modules"], there["modules"], plan.top)
    notes += version_notes(_environment(here), _environment(there))
    return notes


def _unfit(plan: Plan, first: Mapping[str, Told]) -> str:
    """Why nothing of the two sides can be compared; "" where it can."""
    changed = changed_files(plan.top, plan.commit)
    return same_code(
        changed, first[HERE].report["modules"], first[THERE].report["modules"], plan.top
    )


def _environment(report: Mapping[str, Any]) -> Mapping[str, str]:
    for result in report["tests"].values():
        for record in result["records"]:
            if record.get("environment"):
                found: Mapping[str, str] = record["environment"]
                return found
    return {}
