"""The prepared GPU check, where there is no GPU: what a CPU reaches runs, the rest says why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.sh"
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU check itself is for GPUs")


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )  # fmt: skip


@no_gpu
def test_without_a_gpu_each_part_ran_or_says_what_it_lacks(tmp_path: Path) -> None:
    done = checked("--quick", f"--out={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NO GPU: torch sees no CUDA device" in done.stdout
    parts = json.loads((tmp_path / "check.json").read_text())["parts"]
    assert {name: part["status"] for name, part in parts.items()} == {
        "timers": "ran", "l2_flush": "not run", "counters": "not run", "memory": "not run",
        "compiled": "ran", "one_rank": "ran", "example": "ran",
    }  # fmt: skip
    assert set(parts["timers"]["missing"]) == {"timer event", "timer kernel", "timer graph"}
    assert parts["timers"]["values"]["wall_long_us"] > 0
    assert parts["compiled"]["values"] == {"graph_breaks": 1, "recompiles": 0}
    assert parts["one_rank"]["values"]["backend"] == "gloo"
    assert "NCCL" in parts["one_rank"]["missing"]
    assert parts["example"]["values"]["pytest_exit"] == 0
    for name in ("l2_flush", "counters", "memory"):
        assert "needs a CUDA GPU" in parts[name]["reason"]
        assert f"{name:<10} not run" in done.stdout
    traces = sorted(p.name for p in (tmp_path / "traces").iterdir())
    assert "wall-long.pt.trace.json.gz" in traces


def test_a_misspelt_part_is_refused_with_those_there_are(tmp_path: Path) -> None:
    done = checked(f"--out={tmp_path}", "--parts=timer")
    assert done.returncode == 2
    assert "no part timer: there are timers," in done.stderr
