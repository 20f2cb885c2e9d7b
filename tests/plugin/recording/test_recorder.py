"""The whole of a recording, on the CPU."""

from __future__ import annotations

import gc
import gzip
import json
from pathlib import Path

import pytest

from gpuperf_analyzers.live_block import parse_live_block
from pytest_gpuperf.recording import Options, record

torch = pytest.importorskip("torch")

QUICK = Options(warmup_s=0.02, max_time_s=0.05, measure_peak=False)
CPU = torch.device("cpu")


def load(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


def test_the_first_calls_value_comes_back_and_the_block_stands_in_the_trace(tmp_path: Path) -> None:
    a, b = torch.randn(32, 48), torch.randn(48, 16)
    calls = []

    def step():
        calls.append(1)
        return len(calls), a @ b

    done = record(step, device=CPU, trace_path=tmp_path / "t.json.gz", options=QUICK, name="mm")
    assert done.value[0] == 1
    trace = load(done.trace_path)
    assert parse_live_block(trace["gpuperf"]) == done.block
    assert done.block.name == "mm"
    assert done.block.flops == 2 * 32 * 48 * 16  # 2·M·N·K
    assert done.block.flops_by_dtype == {"fp32": 2 * 32 * 48 * 16}
    spans = [e["name"] for e in trace["traceEvents"] if "ProfilerStep" in e.get("name", "")]
    assert spans == ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]
    assert [p.name for p in tmp_path.iterdir()] == ["t.json.gz"]


def test_an_exception_of_the_workload_comes_through_and_all_is_restored(tmp_path: Path) -> None:
    calls = []

    def step():
        calls.append(1)
        if len(calls) == 5:
            raise ZeroDivisionError("mine")

    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError, match=r"^mine$"):
        record(step, device=CPU, trace_path=tmp_path / "t.json.gz", options=QUICK)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert list(tmp_path.iterdir()) == []
