"""Annotations of a change, and a summary that a comment can hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plugin.report.records import judgement, record
from pytest_gpuperf.report.annotations import github_lines, write_code_quality
from pytest_gpuperf.report.markdown import MOST_CHARACTERS, markdown_report, write_markdown

PLACE = {"location": ["tests/perf/test_ddp.py", 12]}


def test_github_gets_a_command_for_each_result_that_is_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    soft = record(verdict="AMBIGUOUS", limits=[judgement(verdict="AMBIGUOUS")], **PLACE)
    lines = github_lines([soft, record(verdict="PASS"), record(**PLACE)], tmp_path)
    assert len(lines) == 2
    error, warning = lines  # what is red comes first: GitHub shows ten of a step
    # The format is GitHub's: properties escape % , : and line ends, the message % and line ends.
    assert error.startswith(
        "::error file=tests/perf/test_ddp.py,line=12,"
        "title=gpuperf FAIL%3A test_ddp.py%3A%3Atest_step[gloo]::overlap 41.0%25 "
    )
    assert "\n" not in error
    assert "%0Aevidence: compute 61.0%25" in error
    assert warning.startswith("::warning file=")


def test_github_paths_are_those_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    (line,) = github_lines([record(**PLACE)], tmp_path / "python")
    assert "file=python/tests/perf/test_ddp.py," in line


def test_a_hostile_name_cannot_begin_another_command(tmp_path: Path) -> None:
    name = "tests/a.py::test[x\n::error::boo\r%]"
    (line,) = github_lines([record(test=name, location=["tests/a.py", 1])], tmp_path)
    assert len(line.splitlines()) == 1


def test_gitlab_gets_code_quality_with_a_fingerprint_that_numbers_do_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)

    def issues(*records: dict[str, object]) -> list[dict[str, object]]:
        return json.loads(write_code_quality(records, tmp_path / "q.json", tmp_path).read_text())

    (issue,) = issues(record(verdict="PASS"), record(**PLACE))
    assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
    assert issue["severity"] == "major"
    assert issue["location"] == {"path": "tests/perf/test_ddp.py", "lines": {"begin": 12}}
    (again,) = issues(record(limits=[judgement(value=0.3)], **PLACE))
    (other,) = issues(record(test="tests/perf/test_ddp.py::test_other", **PLACE))
    assert again["fingerprint"] == issue["fingerprint"] != other["fingerprint"]
    assert issues() == []


def test_the_summary_puts_what_is_red_first_and_fits_a_comment() -> None:
    many = [record(test=f"tests/test_a.py::test_{i}", verdict="PASS") for i in range(3000)]
    page = markdown_report([*many, record()])
    assert len(page) <= MOST_CHARACTERS < 65_536  # GitHub's limit of a comment
    assert "1 FAIL, 3000 PASS" in page
    assert "3000 more results are left out here" in page
    assert "## FAIL: test\\_ddp.py::test\\_step\\[gloo\\]" in page
    assert markdown_report([record(verdict="PASS"), record()]).index("FAIL") < 40


def test_a_flood_of_failures_fits_a_comment_too() -> None:
    page = markdown_report([record(test=f"t.py::test_{i}") for i in range(3000)])
    assert len(page) <= MOST_CHARACTERS
    assert "3000 FAIL" in page
    assert "more results are left out here" in page


def test_the_step_summary_is_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# what an earlier command said\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    write_markdown([record()], summary)
    text = summary.read_text()
    assert text.startswith("# what an earlier command said")
    assert "# gpuperf" in text
    write_markdown([record()], tmp_path / "other.md")
    write_markdown([record()], tmp_path / "other.md")
    assert (tmp_path / "other.md").read_text().count("# gpuperf\n") == 1
