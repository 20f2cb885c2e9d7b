"""Results that are not PASS as annotations of a change: GitHub's commands, GitLab's code quality.

GitHub: workflow commands on the standard output (``::error file=…,line=…::…``). GitLab: a report
of the Code Quality format (an array of description, check name, fingerprint, severity, location).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuperf_analyzers.display import harmless
from gpuperf_analyzers.failure_text import failure_text
from pytest_gpuperf.report.columns import Record, test_name
from pytest_gpuperf.report.json_report import write_whole

_HARD = ("FAIL", "INVALID")
_LONGEST = 4000
"""Characters of one annotation; GitHub cuts the whole step's at 4 KB each."""


def github_lines(records: Sequence[Record], root: Path) -> list[str]:
    """A workflow command for each result that is not PASS, errors first.

    Parameters
    ----------
    records
        The results.
    root
        The folder that paths of tests are relative to; annotations are relative to the checkout
        (``GITHUB_WORKSPACE``) where that is known.
    """
    return [_github(record, root) for record in _worth_telling(records)]


def write_code_quality(records: Sequence[Record], path: Path, root: Path) -> Path:
    """Write the results that are not PASS as a Code Quality report, and return its path."""
    found = [_issue(record, root) for record in _worth_telling(records)]
    write_whole(path, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return path


def _worth_telling(records: Sequence[Record]) -> list[Record]:
    told = [r for r in records if r.get("verdict") not in {"PASS", None}]
    return sorted(told, key=lambda r: r["verdict"] not in _HARD)


def _github(record: Record, root: Path) -> str:
    level = "error" if record["verdict"] in _HARD else "warning"
    path, line = _place(record, root, "GITHUB_WORKSPACE")
    title = f"gpuperf {record['verdict']}: {test_name(record)}"
    place = f"file={_property(path)}," + (f"line={line}," if line else "")
    return f"::{level} {place}title={_property(title)}::{_message(_text(record))}"


def _text(record: Record) -> str:
    lines = failure_text(record).splitlines()
    return "\n".join(harmless(line, 400) for line in lines)[:_LONGEST]


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def _issue(record: Record, root: Path) -> Mapping[str, Any]:
    path, line = _place(record, root, "CI_PROJECT_DIR")
    text = _text(record)
    # The same finding of the same test keeps its fingerprint, whatever the numbers are.
    limits = [str(j.get("text")) for j in record.get("limits") or () if j["verdict"] != "PASS"]
    same = "\0".join([str(record.get("test")), str(record.get("name")), *limits])
    return {
        "description": f"{test_name(record)}: {text}",
        "check_name": f"gpuperf-{str(record['verdict']).lower()}",
        "fingerprint": hashlib.sha256(same.encode("utf-8", "backslashreplace")).hexdigest(),
        "severity": "major" if record["verdict"] in _HARD else "info",
        "location": {"path": path, "lines": {"begin": line or 1}},
    }


def _place(record: Record, root: Path, variable: str) -> tuple[str, int | None]:
    """Path of the test's file in the checkout, and its line from 1; None where unknown."""
    location = record.get("location") or [str(record.get("test", "")).partition("::")[0], None]
    path, line = root / str(location[0]), location[1]
    checkout = os.environ.get(variable)
    for base in (checkout, str(root)):
        if base and path.is_relative_to(base):
            return path.relative_to(base).as_posix(), line
    return path.as_posix(), line
