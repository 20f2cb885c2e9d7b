"""`gpuperf compare`: what is printed, exit statuses, and the comparisons that it must show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kineto import KinetoTrace
from pytest_gpuperf.cli import main

Capture = pytest.CaptureFixture[str]


def steps(
    folder: Path, name: str, lengths: Sequence[float], *, rank: int | None = None, world: int = 1,
    device: str = "NVIDIA H100 80GB HBM3", **metadata: Any,
) -> str:  # fmt: skip
    """A trace of one mm a step that takes the given µs; steps are 10 µs longer."""
    t = KinetoTrace(rank=rank, world_size=world, device_name=device, **metadata)
    at = 0.0
    for number, length in enumerate(lengths):
        with t.step(number, at=at, dur=length + 10):
            t.op("aten::mm", at, 8, dims=[[64, 64], [64, 64]], dtypes=["float", "float"])
            t.launch("gemm", at + 1, (at + 5, at + 5 + length))
        at += length + 10
    folder.mkdir(exist_ok=True)
    return str(t.write(folder / name))


@pytest.fixture
def before(tmp_path: Path) -> str:
    """Six steps of 110 µs."""
    return steps(tmp_path, "before.json", [100] * 6)


def test_what_changed_is_shown_with_its_share(before: str, tmp_path: Path, capsys: Capture) -> None:
    after = steps(tmp_path, "after.json", [120] * 6)
    assert main(["compare", before, after]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    # The last step ends with the host, 5 µs after the kernel: its window is 105 µs, then 125.
    assert "step time 109.2 µs → 129.2 µs: +20.00 µs (+18.3%), means of 6 and 6 steps" in lines
    assert "compute 100.0 µs 120.0 µs +20.00 µs 100.0%" in lines
    assert "aten::mm 64x64 64x64 100.0 µs 120.0 µs +20.00 µs 100.0%" in lines
    assert "gemm 100.0 µs 120.0 µs +20.00 µs 100.0% 1" in lines
    assert lines.count("whole 109.2 µs 129.2 µs +20.00 µs 100.0%") == 2


def test_a_trace_with_itself_has_no_change(before: str, capsys: Capture) -> None:
    assert main(["compare", before, before, "--max-regression", "0%"]) == 0
    out = capsys.readouterr().out
    assert "nothing changed" in out
    assert "aten::mm" not in out
    assert "\nAMBIGUOUS " in out  # 105 to 110 µs on both sides


@pytest.mark.parametrize(
    ("lengths", "verdict", "status"),
    [
        ([100] * 6, "AMBIGUOUS", 0),  # 105/110 to 110/105: −4.5% to +4.8%
        ([80] * 6, "PASS", 0),
        ([200] * 6, "FAIL", 1),
    ],
)
def test_the_change_of_the_median_is_judged_by_intervals(
    lengths: list[float], verdict: str, status: int, before: str, tmp_path: Path, capsys: Capture
) -> None:
    after = steps(tmp_path, "after.json", lengths)
    assert main(["compare", before, after, "--max-regression", "3%"]) == status
    assert f"\n{verdict} " in capsys.readouterr().out
    strict = main(["compare", before, after, "--max-regression", "3%", "--strict"])
    assert strict == int(verdict != "PASS")


def test_few_steps_are_judged_by_the_median_alone_and_that_is_said(
    tmp_path: Path, capsys: Capture
) -> None:
    old, new = (steps(tmp_path, f"{n}.json", [n] * 3) for n in (100, 120))
    assert main(["compare", old, new, "--max-regression", "3%"]) == 1
    last = " ".join(capsys.readouterr().out.splitlines()[-2:])
    assert last.startswith(
        "FAIL          max_regression of step_time: '3%': +18.2%: fewer than six"
    )


def test_later_steps_that_are_slow_are_found(tmp_path: Path, capsys: Capture) -> None:
    old = steps(tmp_path, "old.json", [100, 100, 100, 100])
    new = steps(tmp_path, "new.json", [100, 200, 300, 100])
    assert main(["compare", old, new]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "ProfilerStep#2 takes 2.8 times the median step before: above all aten::mm" in out
    assert "ProfilerStep#1 takes 1.9 times" in out


def test_another_gpu_is_compared_with_a_notice_and_not_judged(
    before: str, tmp_path: Path, capsys: Capture
) -> None:
    after = steps(tmp_path, "after.json", [200] * 6, device="NVIDIA A100-SXM4-80GB")
    assert main(["compare", before, after, "--max-regression", "3%"]) == 0
    out = capsys.readouterr().out
    assert "! other hardware: NVIDIA H100 80GB HBM3 before, NVIDIA A100-SXM4-80GB after" in out
    assert "INCOMPARABLE  max_regression" in out
    assert main(["compare", before, after, "--max-regression", "3%", "--strict"]) == 1


def test_sets_of_different_world_sizes_are_compared_with_a_notice(
    tmp_path: Path, capsys: Capture
) -> None:
    for rank in range(4):
        if rank < 2:
            steps(tmp_path / "two", f"rank{rank}.json", [100] * 3, rank=rank, world=2)
        steps(tmp_path / "four", f"rank{rank}.json", [100 + rank] * 3, rank=rank, world=4)
    assert main(["compare", str(tmp_path / "two"), str(tmp_path / "four"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert any(n.startswith("other world size: 2 ranks before") for n in document["notices"])
    assert document["delta_us"] == pytest.approx(1.5)  # ranks are 0, 1, 2 and 3 µs slower
    assert len(document["steps_after"]) == 12
    assert document["verdict"] is None


def test_the_document_holds_parts_that_add_up(before: str, tmp_path: Path, capsys: Capture) -> None:
    after = steps(tmp_path, "after.json", [130] * 6)
    arguments = ["compare", before, after, "--json", "--top", "1", "--max-regression", "3%"]
    assert main(arguments) == 1
    document = json.loads(capsys.readouterr().out)
    (change,) = document["changes"]
    assert (change["op"], change["change"], change["delta_us"]) == ("aten::mm", "slower", 30.0)
    assert change["delta_us"] + document["other_delta_us"] == pytest.approx(document["delta_us"])
    assert sum(k["delta_us"] for k in document["kinds"]) == pytest.approx(document["delta_us"])
    (limit,) = document["limits"]
    assert (limit["verdict"], limit["metric"], limit["limit"]) == ("FAIL", "step_time", 0.03)
    assert limit["interval"][0] == pytest.approx(135 / 110 - 1)  # the shorter last step's window
    assert document["before"]["step_time"]["value"] == 110.0


def test_several_metrics_can_be_judged(before: str, tmp_path: Path, capsys: Capture) -> None:
    after = steps(tmp_path, "after.json", [200] * 6)
    options = ["--max-regression", "500%", "--max-regression", "kernel-launches=0.01"]
    assert main(["compare", before, after, *options]) == 2
    assert "above 100%" in capsys.readouterr().err
    options = ["--max-regression", "100%", "--max-regression", "kernel-launches=0.01"]
    assert main(["compare", before, after, *options]) == 0
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert [line.split()[0] for line in lines] == ["PASS", "PASS"]


@pytest.mark.parametrize(
    ("written", "said"),
    [("3ms", "3ms"), ("step_tim=3%", "did you mean step_time"), ("", "not a quantity")],
)
def test_a_limit_that_cannot_be_understood_is_status_2(
    written: str, said: str, before: str, capsys: Capture
) -> None:
    assert main(["compare", before, before, "--max-regression", written]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_a_side_that_cannot_be_read_or_has_no_device_is_status_2(
    before: str, tmp_path: Path, capsys: Capture
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("nothing")
    assert main(["compare", before, str(bad)]) == 2
    empty = KinetoTrace()
    empty.runtime("cudaLaunchKernel", 0, 1)
    lost = str(empty.write(tmp_path / "lost.json"))
    capsys.readouterr()
    assert main(["compare", lost, before]) == 2
    captured = capsys.readouterr()
    assert "no GPU activity" in captured.err
    assert len(captured.err.splitlines()) == 1


def test_one_side_alone_is_wrong_usage(before: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["compare", before])
    assert stopped.value.code == 2


def test_live_samples_are_judged_and_a_trace_without_them_is_not_comparable(
    before: str, tmp_path: Path, capsys: Capture
) -> None:
    def block(us: float) -> dict[str, Any]:
        return {
            "schema": 1, "device": "NVIDIA H100 80GB HBM3", "device_type": "cuda", "steps": 6,
            "samples_us": [us] * 20, "environment": {"torch": f"2.{us:.0f}"},
        }  # fmt: skip

    old, new = (steps(tmp_path, f"live{n}.json", [n] * 6, gpuperf=block(n)) for n in (100, 101))
    assert main(["compare", old, new, "--max-regression", "3%"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "PASS max_regression of step_time: '3%': +1.00%" in out
    assert "! torch: 2.100 before, 2.101 after" in out
    assert "step_time was timed with the profiler off" in out
    assert main(["compare", before, new, "--max-regression", "3%"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "steps were timed under the profiler before and with it off after" in out


def test_runs_at_different_clocks_are_judged_in_cycles(tmp_path: Path, capsys: Capture) -> None:
    def run(us: float, mhz: float) -> str:
        block = {
            "schema": 1, "device": "NVIDIA H100 80GB HBM3", "device_type": "cuda", "steps": 6,
            "samples_us": [us] * 20, "telemetry": {"sm_clock": {"value": mhz, "n": 50}},
        }  # fmt: skip
        return steps(tmp_path, f"{us:.0f}-{mhz:.0f}.json", [us] * 6, gpuperf=block)

    # 100 µs x 1500 MHz = 120 µs x 1250 MHz = 150,000 cycles; 120 µs at 1500 MHz are 20% more.
    full, held_down, slower = run(100, 1500), run(120, 1250), run(120, 1500)
    regressions = ["--max-regression", "step_time=3%", "--max-regression", "step_cycles=3%"]
    assert main(["compare", full, held_down, *regressions]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "FAIL max_regression of step_time: '3%': +20.0%" in out
    assert "PASS max_regression of step_cycles: '3%': +0%" in out
    assert main(["compare", full, slower, *regressions]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "FAIL max_regression of step_cycles: '3%': +20.0%" in out


def test_two_jobs_of_different_world_sizes_and_gpus(shared_traces: Path, capsys: Capture) -> None:
    folder = shared_traces / "hta-trace-diff"
    paths = [str(folder / f"{side}.json.gz") for side in ("control", "test")]
    assert main(["compare", *paths, "--max-regression", "3%"]) == 0
    out = capsys.readouterr().out
    assert "! other hardware: NVIDIA A100-PG509-200 before, Tesla V100-SXM2-16GB after" in out
    assert "! other world size: 8 ranks before, 2 after" in out
    assert "CompiledFunctionBackward" in out
    assert "INCOMPARABLE" in out


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("20210113.worker0.pt.trace.json.gz", "20210223.worker0.pt.trace.json.gz"),
        ("worker0.1623143089861.pt.trace.json.gz", "worker0.1623143566756.pt.trace.json.gz"),
    ],
)
def test_two_runs_of_one_training_differ_in_what_the_host_did(
    before: str, after: str, shared_traces: Path, capsys: Capture
) -> None:
    folder = shared_traces / "kineto-tb-resnet50-num-workers-0"
    assert main(["compare", str(folder / before), str(folder / after), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first = document["changes"][0]
    assert (first["op"], first["idle"]) == ("host-bound", True)
    assert first["share"] > 0.9
    assert all(c["matched"] == "same" for c in document["changes"])
