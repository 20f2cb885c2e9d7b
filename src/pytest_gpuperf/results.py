"""The results of a run: gathered where reports arrive, shown and written at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuperf_analyzers.hookspecs import Report, hookimpl
from pytest_gpuperf.keeping import Keeping, KeepingError, Kept, keep
from pytest_gpuperf.report.live_line import LiveTerminal

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config
    from pytest_gpuperf.session.run import Run

Record = Mapping[str, Any]

_FORMATS = ("json", "markdown", "html", "gitlab", "prometheus")
_WITH_REPORT = ("json", "html")
"""Formats that ``--gpuperf-report`` writes without being asked for each."""

_RUN_AGAIN = ("rerun", "retried")
"""Outcomes that pytest-rerunfailures and pytest-retry give a run that is not the test's last."""


def option(config: pytest.Config, name: str) -> Any:
    """An option from the command line, else from the ini file; None where neither knows it."""
    given = config.getoption(f"gpuperf_{name}", None)
    if given is not None:
        return given
    try:
        return config.getini(f"gpuperf_{name}")
    except (KeyError, ValueError):  # an option that a plugin declared without an ini mirror
        return None


def path_option(config: pytest.Config, name: str) -> Path | None:
    """A path: relative to where pytest was called, or, from the ini file, to the root folder."""
    given = config.getoption(f"gpuperf_{name}", None)
    if given is not None:
        return Path(config.invocation_params.dir, given)
    written = option(config, name)
    return Path(config.rootpath, written) if written else None


class BuiltInReports:
    """Our own report formats, registered as a plugin's would be.

    The option ``--gpuperf-NAME=PATH`` of a format is declared by who brings it.
    """

    def __init__(self, config: pytest.Config, analysis: Callable[[], Config]) -> None:
        self._root = config.rootpath
        self._config = analysis
        self._samples = bool(config.getini("gpuperf_samples"))

    @hookimpl
    def gpuperf_reports(self) -> Sequence[Report]:
        """``json``, ``markdown``, ``html``, ``gitlab`` and ``prometheus``."""
        return [
            Report("json", self._json),
            Report("markdown", self._markdown),
            Report("html", self._html),
            Report("gitlab", self._gitlab),
            Report("prometheus", self._prometheus),
        ]

    def _json(self, results: Sequence[Record], path: Path) -> None:
        from pytest_gpuperf.report import write_report

        if not self._samples:
            results = [{**record, "samples_us": []} for record in results]
        write_report(results, path.parent, _environment(results), root=self._root, path=path)

    def _markdown(self, results: Sequence[Record], path: Path) -> None:
        from pytest_gpuperf.report import write_markdown

        write_markdown(results, path)

    def _gitlab(self, results: Sequence[Record], path: Path) -> None:
        from pytest_gpuperf.report import write_code_quality

        write_code_quality(results, path, self._root)

    def _prometheus(self, results: Sequence[Record], path: Path) -> None:
        from pytest_gpuperf.exporter.textfile import write_textfile
        from pytest_gpuperf.report.json_report import report_document

        write_textfile(report_document(results, _environment(results), root=self._root), path)

    def _html(self, results: Sequence[Record], path: Path) -> None:
        from pytest_gpuperf.report import write_results_page

        write_results_page(results, path, _environment(results), self._config(), root=self._root)


def _environment(results: Sequence[Record]) -> Mapping[str, str]:
    """Of the first result that knows it."""
    return next((r["environment"] for r in results if r.get("environment")), {})


class Results:
    """Gathers the records of all reports; shows and writes them at the end."""

    def __init__(self, config: pytest.Config, run: Run, keeping: Keeping) -> None:
        self._config = config
        self._run = run
        self._keeping = keeping
        self._kept = Kept()
        self._lines: list[str] = []
        self._errors: list[str] = []
        self._earlier_runs: Counter[str] = Counter()
        self._terminal: LiveTerminal | None = None

    def pytest_sessionstart(self) -> None:
        """Hold on to the terminal while nothing is captured yet."""
        self._terminal = LiveTerminal(self._config)

    def pytest_unconfigure(self) -> None:
        """Give back what was held of the terminal."""
        if self._terminal is not None:
            self._terminal.close()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the records that came with a report, from here or from a worker.

        Of a test that is run again the last run counts; a note says how many came before.
        """
        if report.outcome in _RUN_AGAIN:
            self._earlier_runs[report.nodeid] += 1
            return
        records = getattr(report, "gpuperf_records", [])
        earlier = self._earlier_runs[report.nodeid]
        for record in records if earlier else ():
            record["notes"] = [*record["notes"], f"run {earlier + 1} of a test that failed before"]
        for record in records:
            path, line, _ = report.location
            record["location"] = [path, None if line is None else line + 1]
        self._run.records += records
        # Red for a soft verdict alone (--gpuperf-strict) is no reason not to save: a first run has
        # no baseline. What failed by itself brings no observation.
        failed = any(record["verdict"] in ("FAIL", "INVALID") for record in records)
        self._kept.add(getattr(report, "gpuperf_observations", []), failed=failed)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Show how far a measurement is while it runs, where somebody looks."""
        from pytest_gpuperf.recording.watching import watched_by

        line = None if self._terminal is None else self._terminal.line()
        if line is None:
            return (yield)
        try:
            with watched_by(line):
                return (yield)
        finally:
            line.clear()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports, baselines and history that were asked for."""
        if self._told_elsewhere():
            return
        self._keep(session)
        report_wanted = bool(option(self._config, "report"))
        asked = any(path_option(self._config, name) for name in _FORMATS)
        if not (self._run.records or asked):
            return
        for group in self._run.hooks().hook.gpuperf_reports():
            for report in group:
                path = path_option(self._config, report.option)
                if path is None and report_wanted and report.option in _WITH_REPORT:
                    path = self._run.directory / f"report.{report.option}"
                if path is not None:
                    self._write(report, path)

    def _keep(self, session: pytest.Session) -> None:
        """Keep what outlives the run; what could not be kept turns a green run red."""
        try:
            self._lines += keep(
                self._kept, self._keeping, self._run.directory, disabled=self._run.disabled
            )
        except KeepingError as error:
            self._errors += str(error).splitlines()
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write(self, report: Report, path: Path) -> None:
        """Write one report, and keep the line that says where it is, or why it is not."""
        try:
            report.write(self._run.records, path)
        except OSError as error:
            self._errors.append(f"gpuperf: {path} could not be written: {error}")
        except Exception as error:  # noqa: BLE001 - a report's defect must not cost the run's outcome
            said = " ".join(f"{type(error).__name__}: {error}".split())
            self._errors.append(f"gpuperf: {path} could not be made: {said}")
        else:
            self._lines.append(f"gpuperf: report in {path}")

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        """The table, a line for each soft verdict, and where the reports are."""
        # Soft verdicts are lines of our own: as Python warnings, -W error would turn them red.
        if self._run.records and not self._told_elsewhere():
            from pytest_gpuperf.report import terminal_summary

            table = bool(option(config, "report"))
            terminal_summary(self._run.records, terminalreporter, config, table=table)
            if option(config, "github"):
                from pytest_gpuperf.report import github_lines

                for line in github_lines(self._run.records, config.rootpath):
                    terminalreporter.write_line(line)
        # A report that is asked for and missing is said to the quietest of runs.
        for line in (*self._errors, *(self._lines if config.option.verbose >= 0 else ())):
            terminalreporter.write_line(line)

    def _told_elsewhere(self) -> bool:
        """Whether another rank of a surrounding torchrun tells the results of all."""
        if not self._run.records:
            return False
        from pytest_gpuperf.session.ddp_joined import torchrun_place

        place = torchrun_place()
        return place is not None and place.rank != 0
