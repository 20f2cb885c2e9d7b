"""``--gpuperf-against=REV``: runs the comparison in place of pytest's loop, and tells the results.

The tests are collected as always, so that selection, markers and mistakes in them are what they
are elsewhere; their bodies run in the processes of the two sides only.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from gpuperf_analyzers.failure_text import failure_text
from gpuperf_analyzers.limits import Verdict
from pytest_gpuperf.baselines.against.runner import Plan, compare
from pytest_gpuperf.baselines.against.sides import (
    HERE,
    THERE,
    Side,
    interpreter,
    module_folders,
    moved_folders,
    pytest_arguments,
)
from pytest_gpuperf.baselines.against.worktree import (
    AgainstError,
    checked_out,
    commit_of,
    is_dirty,
    toplevel,
)
from pytest_gpuperf.session.collecting import DECLARED

if TYPE_CHECKING:
    from pytest_gpuperf.baselines.against.judging import Comparison
    from pytest_gpuperf.session.run import Run

_SETUP_S = 3600
_SHORT = 9
_PLUGINS = ("xdist", "pytest_cov", "randomly", "rerunfailures")
_PROPERTY = "gpuperf."


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for.

    Attributes
    ----------
    revision
        To compare with.
    pairs
        Most pairs of processes.
    environment
        Python or environment folder that the revision runs on; None for this one.
    setup
        Command that is run in the revision's checkout first; "" for none.
    """

    revision: str
    pairs: int
    environment: str | None = None
    setup: str = ""


class Against:
    """The pytest plugin of a comparison."""

    def __init__(self, run: Run, asked: Asked) -> None:
        self._run = run
        self._asked = asked
        self._lines: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Only what measures can be compared."""
        others = [item for item in items if DECLARED not in item.stash]
        if others:
            items[:] = [item for item in items if DECLARED in item.stash]
            config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Compare, then report every test."""
        config = session.config
        broken = session.testsfailed and not config.option.continue_on_collection_errors
        if broken or config.option.collectonly or not session.items:
            return None  # pytest's own loop says so, runs nothing, and ends as it should
        try:
            with _terminated_as_interrupted():
                found = self._compare(session)
        except AgainstError as error:
            raise pytest.UsageError(f"gpuperf: {error}") from None
        for item in session.items:
            _tell(item, found, self._run)
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What holds for the whole comparison."""
        for line in self._lines:
            terminalreporter.write_line(line)

    def _compare(self, session: pytest.Session) -> Comparison:
        config, asked = session.config, self._asked
        top = toplevel(config.rootpath)
        commit = commit_of(top, asked.revision)
        short = commit[:_SHORT]
        named = short if commit.startswith(asked.revision) else f"{asked.revision} ({short})"
        python = interpreter(asked.environment)
        began = monotonic()
        with checked_out(top, commit) as tree:
            if asked.setup:
                _set_up(asked.setup, tree)
            sides = _sides(config, top, tree, python, named)
            plan = Plan(
                sides=sides,
                top=top,
                tree=tree,
                commit=commit,
                title=named,
                pairs=asked.pairs,
                own_environment=asked.environment is not None,
            )
            limits = {item.nodeid: _limits(item) for item in session.items}
            folder = tree.with_name("pairs")  # beside the worktree: it goes with it
            folder.mkdir()
            found = compare(plan, limits, self._run.metrics(), folder, self._progress(config))
        pairs = found.pairs_run
        what = "the working tree as it is" if is_dirty(top) else "the working tree"
        many = f"{pairs} pair{'' if pairs == 1 else 's'} of processes"
        self._lines = [
            f"gpuperf: {what} against {named}: {many}, {monotonic() - began:.0f} s",
            *(f"gpuperf: note: {note}" for note in found.notes),
        ]
        return found

    def _progress(self, config: pytest.Config) -> Any:
        reporter = config.pluginmanager.get_plugin("terminalreporter")

        def say(text: str) -> None:
            if reporter is not None and config.option.verbose >= 0:
                reporter.ensure_newline()
                reporter.write_line(f"gpuperf: {text}")

        return say


def _limits(item: pytest.Item) -> tuple[Any, ...]:
    limits = item.stash[DECLARED].limits
    return tuple(limit for limit in limits if limit.direction in ("regression", "exact"))


def _sides(
    config: pytest.Config, top: Path, tree: Path, python: str, named: str
) -> dict[str, Side]:
    import sys

    called = Path(config.invocation_params.dir).resolve()
    inside = called.relative_to(top) if called.is_relative_to(top) else Path()
    folder = tree / inside
    if not folder.is_dir():
        raise AgainstError(f"{named} has no folder {inside}: call pytest in one that it has")
    written = [str(argument) for argument in config.invocation_params.args]
    plugins = [name for name in _PLUGINS if config.pluginmanager.hasplugin(name)]
    folders = module_folders(top)
    here = Side(
        HERE, "the working tree", sys.executable, called if called.is_relative_to(top) else top,
        pytest_arguments(written, top, None, plugins), tuple(map(str, folders)),
    )  # fmt: skip
    there = Side(
        THERE, named, python, folder, pytest_arguments(written, top, tree, plugins),
        moved_folders(folders, top, tree),
    )  # fmt: skip
    return {HERE: here, THERE: there}


def _set_up(command: str, tree: Path) -> None:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise AgainstError(f"--gpuperf-against-setup={command!r}: {error}") from None
    try:
        done = subprocess.run(
            words, cwd=tree, capture_output=True, text=True, errors="backslashreplace",
            timeout=_SETUP_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, IndexError) as error:
        raise AgainstError(f"--gpuperf-against-setup={command!r} cannot be run: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise AgainstError(
            f"--gpuperf-against-setup={command!r} ended with {done.returncode}: {said[-1]}"
        )


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP end the run as Ctrl-C does, so that all is tidied."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(f"signal {signal.Signals(number).name}")

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    former = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _tell(item: pytest.Item, found: Comparison, run: Run) -> None:
    """Report one test as pytest would have."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    here = found.results.get(item.nodeid, {}).get(HERE, {})
    records = [] if run.disabled else found.records(item.nodeid)
    outcome, said = _outcome(here, records, run)
    longrepr: Any = None
    if outcome == "failed":
        longrepr = said
    elif outcome == "skipped":
        path, line, _ = item.location
        longrepr = (str(path), line or 0, f"Skipped: {said}")
    # JUnit takes the properties that the last report of a test has.
    properties = [*item.user_properties, *_properties(records)]
    for when in ("setup", "call", "teardown"):
        called = when == "call"
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={str(k): 1 for k in item.keywords},
            outcome=outcome if called else "passed",  # type: ignore[arg-type]
            longrepr=longrepr if called else None,
            when=when,
            user_properties=properties if when != "setup" else [],
        )
        if called:
            vars(report)["gpuperf_records"] = records
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _outcome(
    here: Mapping[str, Any], records: Sequence[dict[str, Any]], run: Run
) -> tuple[str, str]:
    """How the test is reported, and with what text."""
    outcome, said = here.get("outcome", "failed"), here.get("said", "no process measured it")
    if outcome == "skipped" or not records:
        return outcome, said
    judged = [r for r in here.get("records", ()) if r["verdict"] in ("FAIL", "INVALID")]
    if outcome == "failed" and not judged:
        return "failed", said  # an assertion of its own
    texts = []
    for record in records:
        verdict = record["verdict"]
        if verdict is not None and Verdict(verdict).fails(strict=run.strict):
            record["failure"] = failure_text(record)
            title = f"[{record['name']}] " if len(records) > 1 and record["name"] else ""
            texts.append(f"{title}{record['failure']}")
    return ("failed", "\n".join(texts)) if texts else ("passed", "")


def _properties(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, object]]:
    """JUnit properties: the verdict, and each change against the revision."""
    found: list[tuple[str, object]] = []
    for record in records:
        prefix = f"{_PROPERTY}{record['name']}." if record["name"] else _PROPERTY
        if record["verdict"] is not None:
            found.append((f"{prefix}verdict", record["verdict"]))
        found += [
            (f"{prefix}{limit['metric']}.change", limit["value"])
            for limit in record["limits"]
            if limit["direction"] == "regression" and limit["value"] is not None
        ]
    return found
