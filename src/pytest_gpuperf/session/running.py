"""One test's call: the body as workload, the judgement after it, and the failure."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuperf_analyzers.failure_text import failure_text
from gpuperf_analyzers.limits import Judgement, Limit, Verdict
from pytest_gpuperf.session.collecting import DECLARED, FIXTURE
from pytest_gpuperf.session.fixture import Gpuperf
from pytest_gpuperf.session.held_memory import held_notes
from pytest_gpuperf.session.measurement import Measurement, result_record
from pytest_gpuperf.session.places import discard
from pytest_gpuperf.session.plain import plain
from pytest_gpuperf.session.run import Run

if TYPE_CHECKING:
    from typing import TypeGuard

ITEM = pytest.StashKey[Gpuperf]()
"""The fixture object of each test that measures, while it runs."""
BODY = pytest.StashKey[bool]()
"""Set while the body of a test is its workload."""
_RECORDS = pytest.StashKey[list[dict[str, Any]]]()
_OBSERVED = pytest.StashKey[list[dict[str, Any]]]()
_PROPERTY = "gpuperf."
"""What the names of our JUnit properties begin with."""

_ASYNC = "an async test is left alone: measure a function that runs to its end (asyncio.run)"
_NEVER_CALLED = (
    "the test has the marker and asks for the fixture, but never called it: call gpuperf(fn), "
    "or leave the fixture out to measure the body"
)
BODY_IS_MEASURED = (
    f"{Verdict.INVALID} the body of this test is its workload, and cannot measure on its own: "
    "name gpuperf among the test's arguments"
)


def require_torch() -> None:
    """Skip the test where torch cannot be imported."""
    __tracebackhide__ = True
    try:
        import torch  # noqa: F401 - only whether it can be imported
    except ImportError as error:
        hint = "" if error.name not in (None, "torch") else ": pip install pytest-gpuperf[torch]"
        pytest.skip(f"gpuperf measures with torch, which cannot be imported ({error}){hint}")


def judged_call(item: pytest.Item, run: Run) -> Generator[None, Any, Any]:
    """Around the call of one test: measure its body if that is the workload, then judge.

    Raises
    ------
    pytest.fail.Exception
        The verdict fails the test. An exception of the test's own passes through instead.
    """
    __tracebackhide__ = True
    restore = _measure_body(item, run) if _body_is_workload(item) else None
    try:
        outcome = yield
    except pytest.skip.Exception:
        _tidy(item.stash.get(ITEM, None), [], run, failed=False)
        raise
    finally:
        if restore is not None:
            restore()
        measured = item.stash.get(ITEM, None)
        # unittest hands exceptions to the item instead of raising them.
        own_failure = bool(getattr(item, "_excinfo", None))
        if measured is not None:
            measured.ended = True
        records = _records(item, measured, run)
        item.stash[_RECORDS] = records
    if measured is None or own_failure:
        return outcome
    item.stash[_OBSERVED] = [plain(m.observation) for m in measured.kept if m.observation]
    if not measured.kept and measured.declaration.marked:
        measured.kept.append(_unmeasured(item, measured))
        records[:] = _records(item, measured, run)
    text = _failure(measured, records, run)
    _tidy(measured, records, run, failed=bool(text))
    if text:
        raise pytest.fail.Exception(text, pytrace=False)
    return outcome


def finished(item: pytest.Item) -> list[dict[str, Any]]:
    """The records of a test whose call has ended, once; empty before and after."""
    records: list[dict[str, Any]] = item.stash.get(_RECORDS, [])
    item.stash[_RECORDS] = []
    if ITEM in item.stash:
        del item.stash[ITEM]  # samples and values of a whole run would add up
    # A test that is run again tells its last run only.
    others = [p for p in item.user_properties if not p[0].startswith(_PROPERTY)]
    item.user_properties[:] = [*others, *(p for record in records for p in _properties(record))]
    return records


def observations(item: pytest.Item) -> list[dict[str, Any]]:
    """What a baseline would keep of a test that ran to its end, once; judged red or not."""
    kept: list[dict[str, Any]] = item.stash.get(_OBSERVED, [])
    item.stash[_OBSERVED] = []
    return kept


def _body_is_workload(item: pytest.Item) -> TypeGuard[pytest.Function]:
    """Whether `item` has the marker and neither it nor its set-up asked for the fixture."""
    return (
        isinstance(item, pytest.Function)
        and DECLARED in item.stash
        and FIXTURE not in item.fixturenames
        and ITEM not in item.stash
    )


def _measure_body(item: pytest.Function, run: Run) -> Callable[[], None]:
    """Put a measured body in place of the test's own; what undoes it comes back.

    The fixtures that the body asks for are its set-up: they are made once, before.
    """
    body = item.obj
    item.stash[BODY] = True
    measured = Gpuperf(item.nodeid, item.stash[DECLARED], run)
    item.stash[ITEM] = measured
    if _is_async(body):
        return functools.partial(item.stash.__delitem__, BODY)

    @functools.wraps(body)
    def workload(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return measured.run(functools.partial(body, *args, **kwargs))

    item.obj = workload

    def restore() -> None:
        item.obj = body
        del item.stash[BODY]

    return restore


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _unmeasured(item: pytest.Item, measured: Gpuperf) -> Measurement:
    """What stands for a marked test that measured nothing."""
    by_name = FIXTURE in getattr(item, "fixturenames", ())
    if _is_async(getattr(item, "obj", None)) and not by_name:
        limits = measured.declaration.limits or (Limit("gpuperf", "step_time", "us", "max"),)
        judgements = tuple(
            Judgement(j.text, j.metric, j.direction, j.unit, Verdict.UNMEASURED, reason=_ASYNC)
            for j in limits
        )
        return Measurement(
            verdict=Verdict.UNMEASURED, judgements=judgements, notes=(_ASYNC,), reason=_ASYNC
        )
    reason = "the workload raised, and nothing was measured" if measured.called else _NEVER_CALLED
    return Measurement(verdict=Verdict.INVALID, reason=reason)


def _records(item: pytest.Item, measured: Gpuperf | None, run: Run) -> list[dict[str, Any]]:
    """The records of everything measured so far, as JSON types that any report can carry."""
    if measured is None or run.disabled:
        return []
    units = {name: metric.unit for name, metric in run.metrics().items()}
    records = [
        result_record(m, test=item.nodeid, units=units, extra_info=measured.extra_info)
        for m in measured.kept
    ]
    for record in records:
        record["notes"] += held_notes(item)
    return [plain(record) for record in records]


def _failure(measured: Gpuperf, records: list[dict[str, Any]], run: Run) -> str:
    """The text of every result that fails the test, ``""`` where none does."""
    if run.disabled:
        return ""
    texts = []
    for result, record in zip(measured.kept, records, strict=True):
        if result.verdict is None or not result.verdict.fails(strict=run.strict):
            continue
        shown = {**record, "traces": [_near(path, run) for path in record["traces"]]}
        record["failure"] = failure_text(shown)
        named = len(measured.kept) > 1
        texts.append(
            f"{_title(record, records)}{record['failure']}" if named else record["failure"]
        )
    return "\n".join(texts)


def _near(path: str, run: Run) -> str:
    """`path` as one would write it where pytest was called, if it is below that."""
    with contextlib.suppress(ValueError):
        return str(Path(path).relative_to(run.called_from))
    return path


def _title(record: dict[str, Any], records: list[dict[str, Any]]) -> str:
    return f"[{record['name'] or records.index(record) + 1}] "


def _tidy(
    measured: Gpuperf | None, records: list[dict[str, Any]], run: Run, *, failed: bool
) -> None:
    """Remove the traces of a test that passed or was skipped, unless a report is wanted."""
    if failed or run.keep_traces or measured is None:
        return
    for index, result in enumerate(measured.kept):
        discard(result.traces, root=run.traces)
        measured.kept[index] = replace(result, traces=())
    for record in records:
        record["traces"] = []


def _properties(record: dict[str, Any]) -> list[tuple[str, object]]:
    """The record as JUnit XML properties: verdict, limited values, step time, changes.

    ``gpuperf.step_time.change`` is the share by which it is worse than the baseline.
    """
    prefix = f"{_PROPERTY}{record['name']}." if record["name"] else _PROPERTY
    properties: list[tuple[str, object]] = []
    if record["verdict"] is not None:
        properties.append((f"{prefix}verdict", record["verdict"]))
    properties += [
        (f"{prefix}{limit['metric']}.change", limit["value"])
        for limit in record["limits"]
        if limit["direction"] == "regression" and limit["value"] is not None
    ]
    wanted = dict.fromkeys(["step_time", *(limit["metric"] for limit in record["limits"])])
    for metric in wanted:
        value = record["values"].get(metric, {})
        if value.get("value") is not None:
            properties.append((f"{prefix}{metric}", value["value"]))
    return properties
