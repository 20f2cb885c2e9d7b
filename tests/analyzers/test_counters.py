"""CUPTI's counters: read as they stand, whatever their names, and summed by kernel."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpuperf_analyzers.analysis import analyze
from gpuperf_analyzers.counters import counters_frame, kernel_counters
from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS
from gpuperf_analyzers.trace.cache import read_cached
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace

FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
RANGE = "cuda_profiler_range"


def test_sums_are_summed_and_shares_are_averaged_by_kernel(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.event("gemm", RANGE, 0, 10, **{FFMA: 100, FADD: 5, "sm__throughput.pct": 80})
    t.event("add", RANGE, 10, 10, **{FADD: 7})
    t.op("aten::mm", 15, 2)
    t.event("gemm", RANGE, 20, 10, **{FFMA: 50, FADD: 0, "sm__throughput.pct": 60})
    first, second = kernel_counters(read_trace(t.write(tmp_path / "t.json")))
    assert (first.name, first.count) == ("gemm", 2)
    assert first.totals == {FFMA: 150.0, FADD: 5.0, "sm__throughput.pct": 70.0}
    assert first.flops == 2 * 150 + 5
    assert (second.name, second.flops) == ("add", 7.0)


def test_counters_of_no_floating_point_leave_the_flops_absent(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.event("copy", RANGE, 0, 10, **{"dram__bytes.sum": 4096, "note": "text"})
    (only,) = kernel_counters(read_trace(t.write(tmp_path / "t.json")))
    assert only.totals == {"dram__bytes.sum": 4096.0}
    assert only.flops is None


def test_a_trace_without_ranges_has_none(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("k", 0, (1, 2))
    trace = read_trace(t.write(tmp_path / "t.json"))
    assert kernel_counters(trace) == ()
    assert analyze(trace).to_json()["counters"] == []


def test_damage_in_a_counter_names_its_byte(tmp_path: Path) -> None:
    """0xFF is no UTF-8: the place is where it stands in the file."""
    t = KinetoTrace()
    t.event("gemm", RANGE, 0, 10, **{FFMA: 3, "note": "bad: ?"})
    for i in range(200):
        t.op("aten::mm", 20 + 2 * i, 1)
    path = t.write(tmp_path / "t.json")
    text = path.read_bytes()
    at = text.index(b"bad: ?") + len(b"bad: ")
    path.write_bytes(text.replace(b"bad: ?", b"bad: \xff"))
    trace = read_trace(path, bounds=replace(DEFAULT_BOUNDS, block=4096))
    assert kernel_counters(trace)[0].totals == {FFMA: 3.0}
    (finding,) = [f for f in trace.findings if f.code == "repaired"]
    assert finding.example == f"byte {at}: invalid UTF-8"


def test_the_counters_of_a_real_trace_are_those_of_its_json(shared_traces: Path) -> None:
    path = next((shared_traces / "hta-cupti-profiler").glob("*.json.gz"))
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    ranges = [e for e in events if e.get("cat") == RANGE]
    found = kernel_counters(read_trace(path))
    assert sum(k.count for k in found) == len(ranges) == 77
    for kernel in found:
        mine = [e["args"] for e in ranges if e["name"] == kernel.name]
        for counter, total in kernel.totals.items():
            assert total == sum(args[counter] for args in mine)
    # One convolution of AlexNet: 9,119,334,400 multiply-adds and 24,780,800 multiplications.
    assert found[1].flops == 2 * 9_119_334_400 + 24_780_800
    assert len(counters_frame(found)) == len(found)
    assert len(analyze(read_trace(path)).counters) == len(found)


def test_counters_survive_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuperf_analyzers.trace.cache.SMALLEST", 0)
    t = KinetoTrace()
    t.event("gemm", RANGE, 0, 10, **{FFMA: 100})
    path = t.write(tmp_path / "t.json")
    for _ in range(2):
        (only,) = kernel_counters(read_cached(path, folder=tmp_path / "cache"))
        assert only.flops == 200
