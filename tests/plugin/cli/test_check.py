"""`gpuperf check`: verdicts, exit statuses, and options made from the metric table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuperf_analyzers.metrics import BUILTIN
from kineto import KinetoTrace
from pytest_gpuperf.cli import main


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """One step on an H100: compute 20 to 60 µs, communication 40 to 80: half is overlapped."""
    t = KinetoTrace()
    with t.step(1, at=0, dur=80):
        t.launch("gemm", at=5, runs=(20, 60))
        t.launch("ncclDevKernel_AllReduce", at=9, runs=(40, 80), stream=9)
    return str(t.write(tmp_path / "trace.json"))


def test_a_limit_that_holds_is_a_line_and_status_0(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", trace, "--min-overlap", "0.4"]) == 0
    assert capsys.readouterr().out == "PASS        min_overlap=0.4: 50.0%\n"


def test_a_limit_that_fails_is_status_1(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", trace, "--min-overlap", "60%", "--max-exposed-comm", "50us"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAIL        min_overlap='60%': 50.0%"
    assert lines[1].startswith("PASS        max_exposed_comm='50us': 20.00 µs")
    assert lines[2] == "FAIL in all"


def test_a_foreign_traces_step_time_is_said_to_be_under_the_profiler(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # From the first kernel's start at 20 µs to the last one's end, which is the span's, at 80.
    assert main(["check", trace, "--max-step-time", "1s"]) == 0
    line = "PASS        max_step_time='1s': 60.00 µs, under the profiler\n"
    assert capsys.readouterr().out == line
    assert main(["check", trace, "--max-step-time", "1s", "--json"]) == 0
    (judged,) = json.loads(capsys.readouterr().out)["limits"]
    assert "under the profiler" in judged["source"]


def test_a_soft_verdict_is_status_0_and_under_strict_1(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", trace, "--min-throughput", "5/s"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("UNMEASURED  min_throughput='5/s': no value: items")
    assert main([*arguments, "--strict"]) == 1


def test_a_limit_by_device_takes_the_longest_beginning_of_its_name(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--min-overlap", "NVIDIA H100=0.9", "--min-overlap", "NVIDIA=0.1"]
    assert main(["check", trace, *options]) == 1
    assert "min_overlap['NVIDIA H100']=0.9" in capsys.readouterr().out


def test_a_limit_for_other_devices_only_is_unmeasured(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", trace, "--min-overlap", "NVIDIA A100=0.9"]) == 0
    assert "no limit declared for NVIDIA H100 80GB HBM3" in capsys.readouterr().out


def test_a_default_stands_beside_devices(trace: str) -> None:
    options = ["--min-overlap", "0.1", "--min-overlap", "NVIDIA A100=0.9"]
    assert main(["check", trace, *options]) == 0


def test_a_trace_without_kernels_is_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    t.runtime("cudaLaunchKernel", at=1, dur=2)
    path = t.write(tmp_path / "lost.json")
    assert main(["check", str(path), "--max-idle", "0.5"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("INVALID")
    assert "no-gpu-events" in out


def test_the_judgements_as_json(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", trace, "--min-overlap", "0.6", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "FAIL"
    (limit,) = document["limits"]
    assert (limit["metric"], limit["value"], limit["limit"]) == ("overlap", 0.5, 0.6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no limit given"),
        (["--min-overlap", "3ms"], "3ms"),
        (["--max-exposed-comm", "3"], "needs a unit"),
        (["--min-overlap", "many"], "not a quantity"),
    ],
)
def test_a_limit_that_cannot_be_understood_is_one_line_and_status_2(
    options: list[str], said: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", trace, *options]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_a_misspelt_option_names_the_nearest(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["check", trace, "--min-overlapp", "0.4"])
    assert stopped.value.code == 2
    assert "did you mean --min-overlap" in capsys.readouterr().err


def test_an_unreadable_file_is_status_2(tmp_path: Path, trace: str) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("nothing")
    assert main(["check", str(bad), "--min-overlap", "0.4"]) == 2
    # One bad file of a set: the rest is judged, but the set is not whole.
    assert main(["check", trace, str(bad), "--min-overlap", "0.4"]) == 2


def test_every_metric_is_an_option_in_both_directions(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    text = capsys.readouterr().out
    for metric in BUILTIN:
        better = "min" if metric.better == "higher" else "max"
        assert f"--{better}-{metric.name.replace('_', '-')} " in text
    # The other direction is there too, if not in the help.
    assert main(["check", trace, "--max-overlap", "0.4"]) == 1
