"""At collection: which tests measure, what each declares, and which are to run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from gpuperf_analyzers.limits import LimitError
from gpuperf_analyzers.quantities import shown
from pytest_gpuperf.session.declaration import Declaration, parse_keywords
from pytest_gpuperf.session.run import Run

MARKER = "gpuperf"
FIXTURE = "gpuperf"

DECLARED = pytest.StashKey[Declaration]()
"""The declaration of each test that has the marker or asks for the fixture."""


MISTAKE = pytest.StashKey[str]()
"""What cannot be understood in the markers of a test, one line."""


def declare(items: Iterable[pytest.Item], run: Run) -> list[pytest.Item]:
    """Parse what each test declares; the tests with a mistake in their markers come back."""
    mistaken: list[pytest.Item] = []
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        marks = list(nearest_first(item))
        if marks:
            try:
                item.stash[DECLARED] = parse_keywords(
                    merged_keywords(marks), run.metrics(), run.defaults
                )
            except (LimitError, ValueError) as error:
                item.stash[MISTAKE] = f"{item.nodeid}: @pytest.mark.gpuperf: {error}"
                mistaken.append(item)
        elif FIXTURE in item.fixturenames:
            item.stash[DECLARED] = run.defaults
        declared = item.stash.get(DECLARED, run.defaults)
        run.regressions += sum(limit.direction == "regression" for limit in declared.limits)
    return mistaken


def nearest_first(item: pytest.Function) -> Iterator[pytest.Mark]:
    """The item's gpuperf marks: of its parameters, of the function, the class, the module.

    pytest lists a parameter's marks behind the function's own; nearer to the item they are.
    """
    callspec = getattr(item, "callspec", None)
    of_parameters = [m for m in getattr(callspec, "marks", ()) if m.name == MARKER]
    yield from of_parameters
    for mark in item.iter_markers(MARKER):
        if not any(mark is known for known in of_parameters):
            yield mark


def merged_keywords(marks: Iterable[pytest.Mark]) -> dict[str, Any]:
    """Keywords of several marks, nearest first, as one: the nearest wins.

    Raises
    ------
    LimitError
        A mark with positional arguments: every limit has a name.
    """
    merged: dict[str, Any] = {}
    for mark in marks:
        if mark.args:
            first = shown(mark.args[0])
            raise LimitError(f"{first} has no keyword: write limits as min_tflops=0.5")
        for key, value in mark.kwargs.items():
            merged.setdefault(key, value)
    return merged


def select(config: pytest.Config, items: list[pytest.Item], *, only: bool, skip: bool) -> None:
    """Leave out what ``--gpuperf-only`` and ``--gpuperf-skip`` are not about."""
    if only:
        others = [item for item in items if DECLARED not in item.stash]
        if others:
            items[:] = [item for item in items if DECLARED in item.stash]
            config.hook.pytest_deselected(items=others)
    if skip:
        for item in items:
            if DECLARED in item.stash:
                item.add_marker(pytest.mark.skip(reason="--gpuperf-skip"))
