from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from plugin.report.records import judgement, record
from pytest_gpuperf.report import markdown_report, section_text, write_markdown, write_report
from pytest_gpuperf.report.json_report import commit_of, plain


def test_the_report_has_schema_environment_commit_and_results(tmp_path: Path) -> None:
    path = write_report([record()], tmp_path / "out", {"torch": "2.13.0"}, root=tmp_path)
    assert path == tmp_path / "out" / "report.json"
    document = json.loads(path.read_text())
    assert document["schema"] == 1
    assert document["environment"] == {"torch": "2.13.0"}
    assert document["summary"] == {"FAIL": 1}
    assert document["results"][0]["values"]["overlap"]["interval"] == [0.38, 0.44]
    assert document["commit"] is None


def test_the_commit_is_that_of_the_tests_checkout_and_says_whether_it_is_clean(
    tmp_path: Path,
) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True)

    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "first")
    commit = commit_of(tmp_path)
    assert commit is not None
    assert len(commit["sha"]) == 40
    assert commit["dirty"] is False
    (tmp_path / "a").write_text("2")
    changed = commit_of(tmp_path)
    assert changed is not None
    assert changed["dirty"] is True


def test_what_json_cannot_hold_does_not_break_the_report(tmp_path: Path) -> None:
    extra = {"nan": float("nan"), "path": Path("x"), "odd": "\ud800", 3: {1}}
    path = write_report([record(extra_info=extra)], tmp_path, {})
    kept = json.loads(path.read_text(encoding="utf-8"))["results"][0]["extra_info"]
    assert kept == {"nan": None, "path": "x", "odd": "\\ud800", "3": [1]}


def test_a_failed_write_leaves_the_old_report_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_report([record()], tmp_path, {})
    before = first.read_text()

    def broken(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_report([], tmp_path, {})
    assert first.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_plain_keeps_whole_numbers_and_truth_values() -> None:
    assert plain({"a": (1, True, None, 2.5)}) == {"a": [1, True, None, 2.5]}


def test_markdown_is_one_row_a_result_and_the_text_of_each_failure(tmp_path: Path) -> None:
    results = [record(), record(test="t.py::test_ok|a", verdict="PASS", limits=[])]
    page = write_markdown(results, tmp_path / "summary.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| t")]
    assert len(rows) == 3  # the titles and two results
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert "97.58 ms (91.00–99.00)" in page
    assert "    overlap 41.0% (95% CI 38.0–44.0) on rank 1 < 60% required" in page
    assert page.count("## ") == 1


def test_without_a_baseline_the_reason_is_said_once_for_all_tests() -> None:
    def without(test: str, reason: str = "no baseline is stored here") -> dict[str, Any]:
        limit = judgement(
            verdict="NO-BASELINE", limit=None, value=None, at="", text="max_regression=3%",
            reason=reason,
        )  # fmt: skip
        return record(test=test, verdict="NO-BASELINE", limits=[limit])

    results = [without(f"t.py::test_{i}") for i in range(25)]
    results += [without("t.py::test_new", "this test is not in the baseline"), record(), record()]
    page = markdown_report(results)
    assert page.count("    NO-BASELINE max_regression=3%: no baseline is stored here") == 1
    assert "## NO-BASELINE: 25 tests" in page
    # Twenty are named below it, in a row of the table each is.
    assert "test\\_18, t.py::test\\_19 and 5 more\n" in page
    assert all(f"| t.py::test\\_{i} |" in page for i in range(25))
    assert "## NO-BASELINE: t.py::test\\_new" in page
    assert page.count("## FAIL: ") == 2  # equal texts of what was judged stay apart


def test_a_hostile_name_is_no_markup_in_markdown() -> None:
    page = markdown_report([record(test="t.py::a<b>[x](y)`@me|")])
    assert "<b>" not in page
    assert "\\[x\\](y)" in page


def test_a_section_lists_limits_values_evidence_and_trace() -> None:
    soft = judgement(verdict="UNMEASURED", value=None, reason="no counter", text="min_mfu=0.4")
    text = section_text(record(limits=[judgement(), soft], notes=["coverage is tracing"]))
    lines = text.splitlines()
    assert lines[0].startswith("gpuperf: FAIL, cpu, 2 ranks, 2 samples by wall clock")
    assert "  FAIL        overlap 41.0% (95% CI 38.0–44.0) on rank 1 < 60% required" in lines
    assert "  UNMEASURED  min_mfu=0.4 on rank 1: no counter" in lines
    assert "  step_time = 97.58 ms (95% CI 91.00–99.00)" in lines
    assert "  note: coverage is tracing" in lines
    assert "  trace: .gpuperf/a/rank0.json.gz" in lines
    assert "peak_memory" not in text


def test_a_report_into_what_is_no_file_leaves_it_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_markdown([record()], pipe)
        written = os.read(reader, 1 << 16).decode()
    finally:
        os.close(reader)
    assert written.startswith("# gpuperf\n")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
