"""Occupancy, waves and tail from launch geometry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.saturation import SaturationResult, analyze
from gpuperf_analyzers.trace.classify import devices
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def analyzed(trace: KinetoTrace, tmp_path: Path, config: Config) -> SaturationResult:
    return analyze(read_trace(trace.write(tmp_path / "t.json")), config, 0)


def kernel(t: KinetoTrace, name: str, at: float, length: float, **geometry: Any) -> None:
    t.launch(name, at, (at + 10, at + 10 + length), **geometry)


def test_occupancy_is_weighted_by_time_and_says_how_much_time_it_covers(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    kernel(t, "long", 0, 30, **{"est. achieved occupancy %": 80})
    kernel(t, "short", 50, 10, **{"est. achieved occupancy %": 40})
    kernel(t, "node of a graph", 70, 10)
    result = analyzed(t, tmp_path, config)
    assert result.est_occupancy == pytest.approx((0.8 * 30 + 0.4 * 10) / 40)
    assert result.covered == pytest.approx(40 / 50)
    value = next(iter(result.metrics()))
    assert "80.0% of kernel time" in value.source


def test_one_thread_in_a_loop_keeps_a_gpu_busy_and_fills_none_of_it(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    kernel(t, "spin", 0, 1000,
           **{"est. achieved occupancy %": 0, "blocks per SM": 1 / 132, "grid": [1, 1, 1],
              "block": [1, 1, 1]})  # fmt: skip
    result = analyzed(t, tmp_path, config)
    assert result.est_occupancy == 0
    assert result.part_filled == 1.0
    assert result.tail_efficiency == pytest.approx(1 / 132)


def test_the_tail_is_what_the_last_wave_leaves_empty(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    # 132 multiprocessors: 1.25 waves fill 1.25 of 2; 4 fill all.
    kernel(t, "odd", 0, 30, **{"est. achieved occupancy %": 50, "blocks per SM": 1.25})
    kernel(t, "even", 50, 10, **{"est. achieved occupancy %": 50, "blocks per SM": 4.0})
    result = analyzed(t, tmp_path, config)
    assert {k.name: (k.waves, k.tail_efficiency) for k in result.by_kernel} == {
        "odd": (1.25, 0.625),
        "even": (4.0, 1.0),
    }
    assert result.tail_efficiency == pytest.approx((0.625 * 30 + 1.0 * 10) / 40)
    assert result.part_filled == 0.0


def test_without_estimates_there_is_no_number_and_the_reason(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    kernel(t, "k", 0, 10)
    result = analyzed(t, tmp_path, config)
    occupancy, few, tail = result.metrics()
    assert (occupancy.value, few.value, tail.value) == (None, None, None)
    assert "no occupancy estimates" in str(occupancy.absent_reason)
    assert "no kernel records its blocks" in str(few.absent_reason)
    assert tail.absent_reason == few.absent_reason


def test_empty_multiprocessors_and_tails_can_be_limits(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    kernel(t, "few", 0, 30, **{"est. achieved occupancy %": 50, "blocks per SM": 0.5})
    kernel(t, "even", 50, 10, **{"est. achieved occupancy %": 50, "blocks per SM": 4.0})
    values = {v.name: v.value for v in analyzed(t, tmp_path, config).metrics()}
    assert set(values) <= set(config.metrics)
    assert values["few_blocks"] == pytest.approx(30 / 40)
    assert values["tail_efficiency"] == pytest.approx((0.5 * 30 + 1.0 * 10) / 40)


TRACES = [
    "hta-critical-path-alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "hta-df-index-resolver/df_index_resolver.json.gz",
    "hta-trace-diff/control.json.gz",
    "param-dlrm-kineto/worker7_step_12.1694128201553.pt.trace.json.gz",
    "tracelens-b200/eager_trace.json.gz",
    "tracelens-b300-moe-micro/moe_05_large_capacity.json.gz",
    "tracelens-h100/google_owlv2-large-patch14-ensemble__1016001.json.gz",
    "tracelens-mi210-gpu-only-trace/gpu_only_trace.json.gz",
    "tracelens-sglang-deepseek-r1-tp/B300.1782843274.7730265-TP-0-DECODE.trace.json.gz",
]


@pytest.mark.parametrize("name", TRACES)
def test_occupancy_of_real_traces_is_exact(
    name: str, shared_traces: Path, expected: dict[str, Any], config: Config
) -> None:
    trace = read_trace(shared_traces / name)
    for device in devices(trace):
        right = expected[name]["devices"][str(device)]["occupancy_time_weighted_pct"]
        ours = analyze(trace, config, device).est_occupancy
        if right is None:
            assert ours is None
        else:
            assert ours == pytest.approx(right / 100, rel=1e-6)


def test_communication_kernels_do_not_count_as_compute_that_is_not_filled(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    few = {"est. achieved occupancy %": 2, "blocks per SM": 0.1}
    kernel(t, "ncclDevKernel_AllReduce_Sum_f32", 0, 90, **few)
    kernel(t, "gemm", 100, 10, **{"est. achieved occupancy %": 50, "blocks per SM": 4})
    result = analyzed(t, tmp_path, config)
    assert result.est_occupancy == pytest.approx((0.02 * 90 + 0.5 * 10) / 100)
    assert result.part_filled == pytest.approx(0.9)
    assert result.compute_occupancy == pytest.approx(0.5)
    assert result.compute_part_filled == 0.0


def test_bytes_of_copies_add_up_over_time_by_kind(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    pageable, pinned = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
    t.launch("gemm", 0, (0, 1))
    for at, name, size in ((10, pageable, 100), (20, pinned, 7), (30, pageable, 50)):
        t.launch(name, at, (at + 1, at + 3), cat="gpu_memcpy", bytes=size)
    t.launch("Memset (Device)", 40, (41, 42), cat="gpu_memset", bytes=8)
    t.launch(pinned, 50, (51, 52), cat="gpu_memcpy")  # its size is not recorded
    frame = analyzed(t, tmp_path, config).copies_frame()
    assert frame.to_numpy().tolist() == [
        [11.0, "HtoD pageable", 100, 100],
        [21.0, "HtoD pinned", 7, 7],
        [31.0, "HtoD pageable", 50, 150],
        [41.0, "set", 8, 8],
    ]
