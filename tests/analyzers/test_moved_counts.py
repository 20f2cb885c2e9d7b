"""The op that adds a launch, a sync, a copy, a collective: named from two op tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.diff import Diff, diff, op_table
from gpuperf_analyzers.diff.moved_counts import moved_by, moved_flops, moved_text
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace import read_trace
from kineto import KinetoTrace

Add = Callable[[KinetoTrace, float], None]


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def _step(add: Add | None) -> KinetoTrace:
    """A matmul and an all-reduce; `add` puts something more into each of three steps."""
    t = KinetoTrace()
    for i in range(3):
        at = 200.0 * i
        with t.step(i + 1, at=at, dur=200):
            t.op("aten::mm", at + 2, 4, dims=[[8, 4], [4, 2]], dtypes=["float", "float"])
            t.launch("gemm", at + 3, (at + 20, at + 50))
            t.launch("ncclDevKernel_AllReduce_Sum_f32", at + 12, (at + 30, at + 80), stream=9)
            if add is not None:
                add(t, at)
    return t


def _found(add: Add, folder: Path, config: Config) -> Diff:
    before, after = (
        op_table(read_trace(t.write(folder / f"{i}.json")), config)
        for i, t in enumerate((_step(None), _step(add)))
    )
    return diff(before, after)


def _item(t: KinetoTrace, at: float) -> None:
    t.op("aten::item", at + 90, 20)
    t.op("aten::_local_scalar_dense", at + 91, 18)
    t.launch("Memcpy DtoH", at + 92, (at + 95, at + 97), call="cudaMemcpyAsync", cat="gpu_memcpy",
             bytes=4)  # fmt: skip
    t.runtime("cudaStreamSynchronize", at + 98, 8)


def _copy(t: KinetoTrace, at: float) -> None:
    t.op("aten::copy_", at + 90, 20, dims=[[256], [256]], dtypes=["float", "float"])
    t.launch("Memcpy HtoD", at + 92, (at + 95, at + 97), call="cudaMemcpyAsync", cat="gpu_memcpy",
             bytes=1024)  # fmt: skip


def _twice(t: KinetoTrace, at: float) -> None:
    t.launch("ncclDevKernel_AllReduce_Sum_f32", at + 90, (at + 95, at + 120), stream=9)


def _unfused(t: KinetoTrace, at: float) -> None:
    for k, name in enumerate(("aten::erf", "aten::mul", "aten::add")):
        t.op(name, at + 90 + 10 * k, 8, dims=[[8]], dtypes=["float"])
        t.launch(f"{name}_kernel", at + 91 + 10 * k, (at + 100 + 10 * k, at + 105 + 10 * k))


@pytest.mark.parametrize(
    ("add", "metric", "unit", "said"),
    [
        (_item, "host_syncs", "count", "aten::_local_scalar_dense in aten::item (+1 a step)"),
        (_item, "device_to_host", "bytes",
         "aten::_local_scalar_dense in aten::item (+4 B a step)"),
        (_copy, "host_to_device", "bytes", "aten::copy_ 256 256 (+1.000 KiB a step)"),
        (_unfused, "kernel_launches", "count",
         "aten::add 8 (+1 a step), aten::erf 8 (+1 a step), aten::mul 8 (+1 a step)"),
    ],
)  # fmt: skip
def test_what_adds_to_a_count_is_named(
    tmp_path: Path, config: Config, add: Add, metric: str, unit: str, said: str
) -> None:
    assert moved_text(moved_by(_found(add, tmp_path, config), metric), unit) == said


def test_a_doubled_collective_is_named_by_its_kernel(tmp_path: Path, config: Config) -> None:
    (moved,) = moved_by(_found(_twice, tmp_path, config), "collectives")
    assert moved.by == 1
    found = _found(_twice, tmp_path, config)
    (changed,) = [c for c in found.changes if any(p.kind == "communication" for p in c.parts)]
    assert "ncclDevKernel_AllReduce" in changed.parts[0].name


def test_nothing_moved_is_no_text(tmp_path: Path, config: Config) -> None:
    found = _found(lambda t, at: None, tmp_path, config)
    assert moved_by(found, "kernel_launches") == []
    assert moved_text([], "count") == ""


def test_of_flops_the_op_with_more_is_named() -> None:
    moved = moved_flops({"aten::mm": 1000, "aten::bmm": 50}, {"aten::mm": 1010, "aten::bmm": 50})
    assert moved_text(moved, "FLOP") == "aten::mm (+10 FLOP a step)"


def test_what_went_up_comes_before_what_went_down() -> None:
    moved = moved_flops({"a": 10, "b": 0}, {"a": 0, "b": 3})
    assert moved_text(moved, "FLOP") == "b (+3 FLOP a step)"
    assert moved_text(moved, "FLOP", worse=False) == "a (−10 FLOP a step)"
