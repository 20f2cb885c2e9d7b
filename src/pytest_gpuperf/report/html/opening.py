"""What a file that was named is, by its content, and the page that it makes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.report.html.blocks import Cell, Column, Table, text_cell
from pytest_gpuperf.report.html.comparing import comparison_page
from pytest_gpuperf.report.html.kinds import is_report, kind_of, subject_of
from pytest_gpuperf.report.html.model import definitions, environment_facts, unique_anchors
from pytest_gpuperf.report.html.page import Page
from pytest_gpuperf.report.html.sources import TraceFiles, page_of_document
from pytest_gpuperf.report.json_report import SCHEMA, plain

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config

REPORT = "report.json"
_LARGEST_RESULT = 512 * 2**20


class InputError(Exception):
    """An input that no page can be made of: one line that names it and says what would do."""


def page_of_files(paths: Sequence[str], config: Config) -> Page | None:
    """The page of the reports that were named; None where they are traces.

    Raises
    ------
    InputError
        One of the files cannot be read, or they do not go together.
    """
    documents = {path: document(path) for path in paths}
    if all(found is None for found in documents.values()):
        return None
    for path, found in documents.items():
        if found is None:
            raise InputError(f"{path}: is no report; name traces alone, or reports alone")
    reports = [(path, found) for path, found in documents.items() if found is not None]
    try:
        return _page_of(reports, config)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # What is in a file of the right kind may still be anything.
        said = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{paths[0]}: cannot be shown: it has what no result has ({said})"
        ) from None


def _page_of(reports: Sequence[tuple[str, Mapping[str, Any]]], config: Config) -> Page:
    """One report, two compared, or results of other commands."""
    others = [(path, found) for path, found in reports if not is_report(found)]
    if others and len(others) < len(reports):
        raise InputError(f"{others[0][0]}: is of another kind than a report; name it alone")
    if others:
        return _results_of_commands(others)
    if len(reports) > 2:
        raise InputError(f"{len(reports)} reports: one makes a page, two are compared")
    if len(reports) == 2:
        (old, before), (new, after) = reports
        files = TraceFiles(_folder(old)), TraceFiles(_folder(new))
        return comparison_page(before, after, files, (old, new), config)
    [(path, found)] = reports
    return page_of_document(found, config, _folder(path))


def document(path: str) -> Mapping[str, Any] | None:
    """The report in `path`, or in the folder `path`; None where it is something else.

    Raises
    ------
    InputError
        There is no such file, or it is a report that cannot be understood.
    """
    given = Path(path)
    target = given / REPORT if given.is_dir() else given
    if not target.exists():
        if given.is_dir():
            return None
        raise InputError(f"{path}: no such file")
    try:
        if not target.is_file() or target.stat().st_size > _LARGEST_RESULT:
            return None
        if target.suffix == ".jsonl":
            return _history(target)
        own = _own(target) if target.suffix == ".json" else None
    except OSError as error:
        raise InputError(f"{target}: {error.strerror or error}") from None
    return _of_another_tool(target) if own is None else own


def _own(target: Path) -> Mapping[str, Any] | None:
    """What this project wrote; None where the JSON is something else."""
    try:
        loaded = json.loads(target.read_bytes())
    except (ValueError, RecursionError) as error:
        if target.name == REPORT:
            raise InputError(f"{target}: is no JSON: {error}") from None
        return None
    # Not finite numbers become null, and half surrogate pairs text.
    return _checked(plain(loaded), target)


def _history(target: Path) -> Mapping[str, Any]:
    """The lines that ``--gpuperf-history`` added, as ``gpuperf history --json`` gives them."""
    from pytest_gpuperf.baselines.history import read
    from pytest_gpuperf.baselines.history_levels import whole_history

    found = read(target)
    if not found.lines:
        raise InputError(
            f"{target}: has no line of a history: `pytest --gpuperf-history` adds them"
        )
    told: dict[str, Any] = plain(whole_history(found))
    return told | {"lines_left_out": found.skipped + found.newer}


def _of_another_tool(target: Path) -> Mapping[str, Any] | None:
    """A file that another tool wrote, as ``gpuperf analyze --json`` gives it; None for others."""
    from gpuperf_analyzers.foreign import ForeignError, kind_of_file, read_foreign
    from gpuperf_analyzers.registry import load_metrics, plugin_manager

    if not kind_of_file(target):
        return None
    try:
        reading = read_foreign(target)
    except ForeignError as error:
        raise InputError(str(error)) from None
    told: Mapping[str, Any] = plain(reading.to_json(load_metrics(plugin_manager())))
    return told


def _results_of_commands(given: Sequence[tuple[str, Mapping[str, Any]]]) -> Page:
    """The page of JSON that other commands wrote, a subject each."""
    import datetime as dt

    anchors = unique_anchors([path for path, _ in given])
    subjects = []
    for (path, found), anchor in zip(given, anchors, strict=True):
        kind = kind_of(found)
        assert kind is not None  # noqa: S101 - documents of no kind were left out
        subjects.append(subject_of(found, kind, anchor, Path(path).name))
    columns = (Column("what", text=True), Column("file", text=True))
    rows = tuple(
        (Cell(s.title, s.title, link=s.anchor), text_cell(path, 300))
        for s, (path, _) in zip(subjects, given, strict=True)
    )
    return Page(
        title=f"gpuperf: {subjects[0].title}",
        created=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        facts=environment_facts(given[0][1]),
        overview=(Table("Results", columns, rows),),
        subjects=tuple(subjects),
        definitions=definitions(BUILTIN),
    )


def _checked(loaded: object, target: Path) -> Mapping[str, Any] | None:
    if not isinstance(loaded, Mapping):
        return None
    if not is_report(loaded) or "schema" not in loaded:
        return loaded if kind_of(loaded) is not None else None
    schema, results = loaded["schema"], loaded["results"]
    if not isinstance(schema, int) or isinstance(schema, bool):
        return None
    if schema > SCHEMA:
        raise InputError(
            f"{target}: has schema {schema}, newer than {SCHEMA}: update pytest-gpuperf"
        )
    if not isinstance(results, list) or not all(isinstance(r, Mapping) for r in results):
        raise InputError(f"{target}: its results are no list of results")
    return loaded


def _folder(path: str) -> Path:
    given = Path(path)
    return given if given.is_dir() else given.parent
