"""`gpuperf analyze` and `check` on files of other tools, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foreign_samples import ALL, DCGM, NCCL_TESTS, QUERY
from pytest_gpuperf.cli import main


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    status = main([str(a) for a in argv])
    return status, *capsys.readouterr()


def write(tmp_path: Path, text: str, name: str = "all_reduce.txt") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("kind", ALL)
def test_each_kind_is_shown_and_told_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = write(tmp_path, ALL[kind])
    status, out, err = run(capsys, "analyze", path)
    assert (status, err) == (0, "")
    assert " ".join(out.split()).startswith(f"{path}: {kind}")
    status, out, err = run(capsys, "analyze", path, "--json")
    document = json.loads(out)
    assert (status, document["kind"]) == (0, kind)
    assert document["tables"]


def test_bandwidth_of_nccl_tests_is_a_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """9.53 GB/s, in place, at the largest size."""
    path = write(tmp_path, NCCL_TESTS)
    status, out, _ = run(capsys, "check", path, "--min-busbw", "9.5GB/s")
    assert status == 0
    assert "PASS" in out
    status, out, _ = run(capsys, "check", path, "--min-busbw", "350GB/s")
    assert status == 1
    assert "FAIL" in out
    assert "9.53 GB/s" in out


def test_wrong_results_are_invalid_whatever_the_bandwidth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, NCCL_TESTS.replace("values : 0 OK", "values : 4 FAILED"))
    status, out, _ = run(capsys, "check", path, "--min-busbw", "1GB/s", "--json")
    document = json.loads(out)
    assert (status, document["verdict"]) == (1, "INVALID")
    assert "4 wrong values" in document["limits"][0]["reason"]


def test_saturation_from_a_scrape_names_the_worst_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, DCGM, "metrics.prom")
    status, out, _ = run(capsys, "check", path, "--min-sm-active", "60%")
    assert status == 1
    assert "25.0%" in out
    assert "n1 GPU 1 MIG 1g.10gb/7" in out


def test_what_a_file_does_not_hold_is_unmeasured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, QUERY)
    status, out, _ = run(capsys, "check", path, "--min-sm-active", "60%")
    assert status == 0
    assert "UNMEASURED" in out
    assert "not in this output of nvidia-smi" in out
    assert run(capsys, "check", path, "--min-sm-active", "60%", "--strict")[0] == 1


def test_kinds_do_not_mix_and_options_of_traces_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, trace = write(tmp_path, QUERY), write(tmp_path, '{"traceEvents": []}', "t.json")
    status, _, err = run(capsys, "check", path, trace, "--max-power", "1W")
    assert status == 2
    assert "one kind at a time" in err
    with pytest.raises(SystemExit) as stop:
        run(capsys, "analyze", path, "--step", "1")
    assert stop.value.code == 2
    assert "--json and --top only" in capsys.readouterr().err


def test_an_unknown_file_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "analyze", write(tmp_path, "hello\n", "notes.txt"))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "notes.txt" in err
