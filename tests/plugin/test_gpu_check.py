"""The prepared GPU check, where there is no GPU: what a CPU reaches runs, the rest says why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.sh"
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU check itself is for GPUs")


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@no_gpu
def test_without_a_gpu_each_part_ran_or_says_what_it_lacks(tmp_path: Path) -> None:
    done = checked("--quick", "--patience=4", f"--out={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NO GPU: torch sees no CUDA device" in done.stdout
    parts = json.loads((tmp_path / "check.json").read_text())["parts"]
    assert {name: part["status"] for name, part in parts.items()} == {
        "timers": "ran", "l2_flush": "not run", "counters": "not run", "memory": "not run",
        "compiled": "ran", "one_rank": "ran", "ranks": "ran", "mamf": "ran",
        "workloads": "ran", "one_thread": "not run", "example": "ran",
    }  # fmt: skip
    assert set(parts["timers"]["missing"]) == {"timer event", "timer kernel", "timer graph"}
    assert parts["timers"]["values"]["wall_long_us"] > 0
    assert parts["compiled"]["values"] == {"graph_breaks": 1, "recompiles": 0}
    assert parts["one_rank"]["values"]["backend"] == "gloo"
    assert "NCCL" in parts["one_rank"]["missing"]
    assert parts["ranks"]["values"]["ranks"] == 2
    assert "NCCL collectives" in parts["ranks"]["missing"]
    assert len(parts["ranks"]["values"]["collectives"]) == 5
    # Width 64, batch 8: 16·B·W² FLOP; 4·3·(W² + W) bytes, which FSDP2 gathers twice besides.
    assert parts["ranks"]["values"]["ddp"]["flops"] == 524_288
    assert parts["ranks"]["values"]["ddp"]["collective_bytes"] == 49_920
    assert parts["ranks"]["values"]["fsdp"]["collective_bytes"] == 3 * 49_920
    assert set(parts["mamf"]["missing"]) == {"mamf bf16, fp8"}
    assert parts["mamf"]["values"]["fp32"]["effort"]["shapes_timed"] == 4
    assert parts["mamf"]["values"]["fp32"]["best"]["median_tflops"] > 0
    checked_workloads(parts["workloads"])
    assert json.loads((tmp_path / "mamf-fp32.json").read_text())["complete"] is True
    assert parts["example"]["values"]["pytest_exit"] == 0
    for name in ("l2_flush", "counters", "memory", "one_thread"):
        assert "needs a CUDA GPU" in parts[name]["reason"]
        assert f"{name:<10} not run" in done.stdout
    traces = sorted(p.name for p in (tmp_path / "traces").iterdir())
    assert "wall-long.pt.trace.json.gz" in traces


def checked_workloads(part: dict[str, Any]) -> None:
    """What a CPU reaches of them was right and timed; what it does not says what it lacks."""
    timed = {name: found for name, found in part["values"].items() if name != "gains"}
    assert {"matmul-64x64x64-fp32-nn", "copy-4096-fp32", "mlp-64x64x64-fp32"} <= set(timed)
    for name, found in timed.items():
        assert found["error_over_allowed"] <= 1, name
        assert found["us"] > 0, name
    assert timed["copy-4096-fp32"]["gb_s"] == pytest.approx(
        2 * 4 * 4096 / timed["copy-4096-fp32"]["us"] / 1e3
    )
    assert part["values"]["gains"]["depthwise over full"]["speedup"] > 0
    assert "needs a CUDA GPU" in part["missing"]["naive-16x16x16-cuda"]
    assert "Triton" in part["missing"]["naive-16x16x16-triton"]


def test_one_thread_is_held_to_full_utilization_and_an_empty_chip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from gpu_workloads import one_thread_verdict

    # 132 multiprocessors: one of them is 0.76%, which a counter of whole percents reads as 1%.
    one = 1 / 132
    assert one_thread_verdict({"gpu_util": 1.0, "sm_active": 0.01}, one) == ""
    assert one_thread_verdict({"gpu_util": None, "sm_active": None}, one) == ""
    assert "gpu_util reads 40.0%" in one_thread_verdict({"gpu_util": 0.4}, one)
    assert "sm_active reads 50.0%" in one_thread_verdict({"sm_active": 0.5}, one)


def test_a_misspelt_part_is_refused_with_those_there_are(tmp_path: Path) -> None:
    done = checked(f"--out={tmp_path}", "--parts=timer")
    assert done.returncode == 2
    assert "no part timer: there are timers," in done.stderr


def test_a_part_that_hangs_or_crashes_costs_itself_and_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "broken_check.py"
    script.write_text(
        f"""
import os, subprocess, sys, time
sys.path.insert(0, {str(SCRIPT.parent)!r})
import gpu_check

def hangs(check):
    left = subprocess.Popen(["sleep", "600"])
    (check.out / "pids").write_text(f"{{os.getpid()}} {{left.pid}}")
    time.sleep(600)

gpu_check.PARTS = {{"hangs": (hangs, 20.0), "crashes": (lambda check: os._exit(7), 60.0),
                   "after": (lambda check: {{"fine": 1}}, 60.0)}}
sys.exit(gpu_check.main(["--parts=hangs,crashes,after", *sys.argv[1:]]))
""",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script), f"--out={tmp_path}"],
        capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    parts = json.loads((tmp_path / "check.json").read_text())["parts"]
    assert parts["hangs"]["status"] == parts["crashes"]["status"] == "failed"
    assert parts["hangs"]["reason"].startswith("not done after 20 s")
    assert "broken_check.py" in done.stderr
    assert "in hangs" in done.stderr  # the stack of where it was
    assert parts["crashes"]["reason"] == "its process ended with status 7"
    assert (parts["after"]["status"], parts["after"]["values"]) == ("ran", {"fine": 1})
    for pid in (tmp_path / "pids").read_text().split():
        assert not running(int(pid))


def running(pid: int) -> bool:
    """Whether the process is there and has not ended."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
