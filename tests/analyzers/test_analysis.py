"""One trace through all questions: what stands for what, and what is said where nothing does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpuperf_analyzers import analyze, analyze_set, load_config, read_trace, read_traces
from gpuperf_analyzers.hookspecs import Analyzer
from gpuperf_analyzers.metrics import BUILTIN, Metric, Value
from kineto import KinetoTrace


def _two_devices(path: Path) -> Path:
    """Device 0 is busy 90 of 100 µs, device 1 50 of 100."""
    t = KinetoTrace(deviceProperties=[{"id": i, "name": f"GPU {i}"} for i in (0, 1)])
    t.metadata["deviceProperties"] = [{"id": i, "name": f"GPU {i}"} for i in (0, 1)]
    for device, busy in ((0, 80), (1, 40)):
        t.launch("gemm", at=1, runs=(10, 10 + busy), device=device)
        t.launch("tail", at=5, runs=(100, 110), device=device)
    return t.write(path / "two.json")


def test_devices_are_never_merged_and_the_worst_is_named(tmp_path: Path) -> None:
    found = analyze(read_trace(_two_devices(tmp_path)))
    assert [d.values["busy"].value for d in found.devices] == [0.9, 0.5]
    assert (found.values["busy"].value, found.values["busy"].at) == (0.5, "device 1")
    assert (found.values["idle"].value, found.values["idle"].at) == (0.5, "device 1")


def test_every_metric_has_a_value_or_a_reason(tmp_path: Path) -> None:
    found = analyze(read_trace(_two_devices(tmp_path)))
    assert list(found.values) == [m.name for m in BUILTIN]
    assert all((v.value is None) == bool(v.absent_reason) for v in found.values.values())


def test_a_trace_without_a_device_has_only_reasons_and_is_invalid(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.runtime("cudaLaunchKernel", at=1, dur=2)
    found = analyze(read_trace(t.write(tmp_path / "lost.json")))
    assert found.devices == ()
    assert all(v.value is None for v in found.values.values())
    assert set(found.invalid) == {m.name for m in BUILTIN}
    assert "no-gpu-events" in found.invalid["overlap"]


def test_the_analysis_is_json_and_a_table(tmp_path: Path) -> None:
    found = analyze(read_trace(_two_devices(tmp_path)))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["values"]["busy"]["value"] == 0.5
    frame = found.to_frame().set_index("metric")
    assert frame.loc["busy", "value"] == 0.5
    assert frame.loc["busy", "at"] == "device 1"


def test_flops_are_not_judged_where_kernels_have_no_launch_record(tmp_path: Path) -> None:
    def trace(recorded: bool) -> Path:
        t = KinetoTrace()
        with t.step(1, at=0, dur=200):
            t.op("aten::mm", at=5, dur=10, dims=[[64, 32], [32, 16]], dtypes=["float", "float"])
            t.launch("sgemm", at=6, runs=(20, 60))
            t.launch("unknown", at=17, runs=(60, 100), recorded=recorded)
        return t.write(tmp_path / "trace.json")

    whole = analyze(read_trace(trace(True)))
    assert whole.values["flops"].value == 2 * 64 * 32 * 16
    assert "tflops" not in whole.invalid
    partial = analyze(read_trace(trace(False)))
    assert {"flops", "tflops", "mfu", "hfu"} <= set(partial.invalid)
    assert "50.0% of kernel time" in partial.invalid["tflops"]


@dataclass(frozen=True, slots=True)
class _Answer:
    def metrics(self) -> Iterator[Value]:
        yield Value("kernel_names", 2.0)


def test_a_plugins_metric_and_analyzer_stand_beside_the_built_in_ones(tmp_path: Path) -> None:
    metric = Metric("kernel_names", "count", "lower", "run", "", "", "", "no", "kernel names")
    config = load_config()
    config = replace(
        config,
        metrics={**config.metrics, metric.name: metric},
        analyzers=(Analyzer("names", lambda trace, config: _Answer()),),
    )
    found = analyze(read_trace(_two_devices(tmp_path)), config)
    assert found.values["kernel_names"].value == 2.0
    assert found.to_json()["values"]["kernel_names"]["unit"] == "count"


def test_a_set_is_invalid_where_one_of_its_ranks_is(tmp_path: Path) -> None:
    for rank in (0, 1):
        t = KinetoTrace(rank=rank, world_size=2)
        if rank == 0:
            t.launch("gemm", at=1, runs=(10, 60))
        else:
            t.runtime("cudaLaunchKernel", at=1, dur=2)
        t.write(tmp_path / f"rank{rank}.json")
    found = analyze_set(read_traces(tmp_path))
    assert found.values["window"].value == 50.0
    assert found.invalid["window"].startswith("rank 1: ")


def test_a_set_as_a_table_has_a_row_a_rank(tmp_path: Path) -> None:
    for rank, end in ((0, 60), (1, 90)):
        t = KinetoTrace(rank=rank, world_size=2)
        t.launch("gemm", at=1, runs=(10, end))
        t.write(tmp_path / f"rank{rank}.json")
    found = analyze_set(read_traces(tmp_path))
    assert found.to_frame()["window"].tolist() == [50.0, 80.0]
    assert (found.values["window"].value, found.values["window"].at) == (80.0, "rank 1")
    spread = found.spread["window"]
    assert (spread.mean, spread.lowest, spread.highest, spread.n) == (65.0, 50.0, 80.0, 2)
    json.dumps(found.to_json(), allow_nan=False)


def test_files_of_the_same_rank_are_told_apart_by_name(tmp_path: Path) -> None:
    paths = []
    for name, end in (("before", 60), ("after", 90)):
        t = KinetoTrace(rank=0, world_size=1)
        t.launch("gemm", at=1, runs=(10, end))
        paths.append(t.write(tmp_path / f"{name}.json"))
    found = analyze_set(read_traces(paths))
    assert found.values["window"].at == "after.json"


@pytest.mark.parametrize(
    ("inside", "expected"),
    [("aten::linear", True), ("aten::mm", False)],
    ids=["a forward op", "what backward itself calls"],
)
def test_mfu_is_absent_where_the_forward_pass_runs_again(
    tmp_path: Path, inside: str, expected: bool
) -> None:
    t = KinetoTrace()
    t.op("aten::linear", at=5, dur=10, dims=[[64, 32], [16, 32]], dtypes=["float", "float"])
    t.launch("sgemm", at=6, runs=(20, 30))
    t.op("autograd::engine::evaluate_function: MmBackward0", at=40, dur=30)
    t.op(inside, at=45, dur=10, dims=[[64, 32], [32, 16]], dtypes=["float", "float"])
    t.launch("sgemm", at=46, runs=(60, 70))
    mfu = analyze(read_trace(t.write(tmp_path / "trace.json"))).values["mfu"]
    assert ("backward pass" in str(mfu.absent_reason)) == expected
