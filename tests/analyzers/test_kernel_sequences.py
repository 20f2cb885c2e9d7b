"""Frequent kernel sequences under an op."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.kernel_sequences import analyze, sequences
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def test_a_sequence_is_counted_by_op_in_launch_order_with_the_time_between(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    for i in range(3):
        at = 100.0 * i
        t.op("aten::gelu", at, 30)
        t.op("aten::mul", at + 1, 8)
        t.launch("mul", at + 2, (at + 40, at + 45))
        t.launch("tanh", at + 12, (at + 50, at + 52))
    t.op("aten::relu", 300, 10)
    t.launch("relu", 302, (340, 345))
    t.op("aten::gelu", 400, 30)
    t.launch("tanh", 402, (440, 442))
    t.launch("mul", 404, (445, 450))
    found = sequences(read_trace(t.write(tmp_path / "t.json")), config, 0)
    assert [(s.op, s.kernels, s.count, s.time_us, s.span_us) for s in found] == [
        ("aten::gelu", ("mul", "tanh"), 3, 21.0, 36.0)
    ]


def test_a_cpu_has_no_sequences(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::gelu", 0, 30)
    assert sequences(read_trace(t.write(tmp_path / "t.json")), config, "cpu") == ()


def test_sequences_of_a_real_model_repeat_and_share_no_kernel(
    shared_traces: Path, config: Config
) -> None:
    # A vision model of 4,330 kernels: each is launched under one outermost op.
    file = next(shared_traces.glob("tracelens-h100/google_owlv2*"))
    found = sequences(read_trace(file), config, 0)
    assert len(found) > 1
    assert all(s.count >= 2 and len(s.kernels) >= 2 for s in found)
    assert sum(s.count * len(s.kernels) for s in found) <= 4330
    assert all(s.span_us > 0 for s in found)


def test_kernels_of_no_op_make_no_sequence(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    t.launch("b", at=1, runs=(20, 30), recorded=False)
    trace = read_trace(t.write(tmp_path / "t.json"))
    result = analyze(trace, config, 0)
    assert result.sequences == ()
    assert result.to_frame().empty
    assert list(result.metrics()) == []
