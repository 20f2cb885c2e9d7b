"""When measuring may stop: once no limit's interval straddles it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gpuperf_analyzers import load_config
from gpuperf_analyzers.hookspecs import Peak
from gpuperf_analyzers.limits import parse_limits
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.metrics import BUILTIN
from kineto import KinetoTrace
from pytest_gpuperf.session.decided import SamplesDecide, samples_decide, trace_decides

METRICS = {metric.name: metric for metric in BUILTIN}

# Ten samples of 95..104 µs: the order-statistic interval of the median at 95% is the 2nd to the
# 9th of them (2·P(Bin(10, ½) < 2) = 2.1%, < 3 would be 10.9%), 96 to 103 µs.
TEN = tuple(float(us) for us in range(95, 105))
CPU = LiveBlock(device="cpu", device_type="cpu")


def deciding(*peaks: Peak, **limits: object) -> SamplesDecide:
    found = samples_decide(parse_limits(limits, METRICS), peaks)
    assert found is not None
    return found


def test_limits_on_events_are_not_decided_by_more_samples() -> None:
    limits = parse_limits({"min_overlap": 0.5, "max_host_syncs": 0, "exact": ["flops"]}, METRICS)
    assert samples_decide(limits, ()) is None


@pytest.mark.parametrize(
    "limits",
    [
        {"min_tflops": 250},  # a bare rate means an accelerator
        {"max_step_time": {"NVIDIA H100": "1ms"}},
        {"min_throughput": "10/s"},  # no items were declared
        {"min_tflops": {"cpu": 1}},  # nothing was counted
        {"max_regression": "3%", "max_step_time": {"NVIDIA H100": "1ms"}},
    ],
)
def test_a_limit_that_cannot_be_judged_here_is_not_waited_for(limits: dict[str, object]) -> None:
    assert deciding(**limits)(TEN, CPU)


def test_samples_decide_a_step_time_when_its_interval_is_on_one_side() -> None:
    for written, decided in {"103us": True, "102us": False, "96us": False, "95.9us": True}.items():
        assert deciding(max_step_time=written)(TEN, CPU) is decided, written


def test_too_few_samples_for_an_interval_decide_nothing() -> None:
    ask = deciding(max_step_time="1s")
    assert not ask(TEN[:5], CPU)
    assert ask(TEN[:6], CPU)


def test_throughput_is_decided_through_its_items() -> None:
    # 1000 items in 96..103 µs: 9.71 to 10.42 million a second.
    known = LiveBlock(items=1000)
    for written, decided in {"9.7e6/s": True, "1e7/s": False, "10.5e6/s": True}.items():
        assert deciding(min_throughput=written)(TEN, known) is decided, written


def test_tflops_are_decided_through_counted_flops() -> None:
    # 1e9 FLOP in 96..103 µs: 9.71 to 10.42 TFLOPS.
    counted = LiveBlock(flops=10**9, flops_by_dtype={"fp32": 10**9}, flops_source="flop_counter")
    for bound, decided in {9.7: True, 10: False, 10.5: True}.items():
        assert deciding(min_tflops={"cpu": bound})(TEN, counted) is decided, bound


def test_shares_are_decided_through_the_peak_measured_or_in_the_table() -> None:
    # 1e9 FLOP at 20 TFLOPS take 50 µs: 48.5% to 52.1% of 96..103 µs.
    flops = {"flops": 10**9, "flops_by_dtype": {"bf16": 10**9}, "flops_source": "flop_counter"}
    on_cpu = LiveBlock(peak_tflops={"bf16": 20.0}, **flops)
    on_gpu = LiveBlock(device="Acme 1", device_type="cuda", **flops)
    table = Peak(("Acme 1",), {"bf16": 20.0})
    for bound, decided in {0.48: True, 0.5: False, 0.53: True}.items():
        for name in ("mfu", "hfu"):
            ask = deciding(table, **{f"min_{name}": bound})
            assert ask(TEN, on_cpu) is decided, (name, bound)
            assert ask(TEN, on_gpu) is decided, (name, bound)


def test_the_limit_is_that_of_the_device_that_was_measured() -> None:
    ask = deciding(max_step_time={"cpu": "1s", "NVIDIA H100": "100us"})
    assert ask(TEN, CPU)
    assert not ask(TEN, LiveBlock(device="NVIDIA H100 80GB HBM3", device_type="cuda"))


def test_all_limits_must_be_decided() -> None:
    assert not deciding(max_step_time="200us", min_step_time="100us")(TEN, CPU)


def test_it_travels_to_other_processes() -> None:
    peaks = load_config().peaks
    asks = deciding(*peaks, max_step_time="103us"), trace_decides(parse("min_overlap", 0.5), 6)
    first, second = pickle.loads(pickle.dumps(asks))  # noqa: S301 - written in the line itself
    assert first(TEN, CPU)
    assert second == asks[1]


def parse(keyword: str, value: object) -> tuple[object, ...]:
    return parse_limits({keyword: value}, METRICS)


def overlapping(folder: Path, hidden: list[float]) -> Path:
    """Steps of 100 µs with 20 µs of communication, of which these many are hidden."""
    t = KinetoTrace(gpuperf={"schema": 1, "device": "NVIDIA H100", "device_type": "cuda"})
    for i, part in enumerate(hidden):
        at = 100.0 * i
        with t.step(i + 1, at=at, dur=95):
            t.launch("gemm", at=at + 1, runs=(at + 10, at + 60))
            comm = (at + 60 - part, at + 80 - part)
            t.launch("ncclDevKernel_AllReduce", at=at + 4, runs=comm, stream=9)
    return t.write(folder / "trace.json")


def test_a_trace_decides_once_the_interval_of_its_steps_is_on_one_side(tmp_path: Path) -> None:
    # Half of the communication is hidden, give or take a tenth from step to step.
    path = overlapping(tmp_path, [9, 11, 10, 9.5, 10.5, 10])
    for bound, decided in {0.3: True, 0.5: False, 0.7: True}.items():
        ask = trace_decides(parse("min_overlap", bound), 6)
        assert ask is not None
        assert ask(path, None) is decided, bound


def test_a_region_is_decided_by_its_spans_in_the_trace(tmp_path: Path) -> None:
    # As above, all of it inside a region; the workload declares its limits while it runs.
    t = KinetoTrace(gpuperf={"schema": 1, "device": "NVIDIA H100", "device_type": "cuda"})
    for i, part in enumerate([9, 11, 10, 9.5, 10.5, 10]):
        at = 100.0 * i
        with t.step(i + 1, at=at, dur=95):
            t.event("gpuperf.region:reduce", "user_annotation", at + 1, 10)
            t.launch("gemm", at=at + 2, runs=(at + 10, at + 60))
            comm = (at + 60 - part, at + 80 - part)
            t.launch("ncclDevKernel_AllReduce", at=at + 4, runs=comm, stream=9)
    path = t.write(tmp_path / "trace.json")
    regions: dict[str, tuple[object, ...]] = {}
    ask = trace_decides((), 6, regions)
    assert ask is not None
    assert ask(path, None)
    for bound, decided in {0.3: True, 0.5: False, 0.7: True}.items():
        regions["reduce"] = parse("min_overlap", bound)
        assert ask(path, None) is decided, bound


def test_a_trace_without_intervals_or_limits_on_it_is_not_asked() -> None:
    assert trace_decides(parse("min_overlap", 0.5), 5) is None
    assert trace_decides(parse("max_step_time", "1ms"), 12) is None
    # Steps of the trace say nothing of what NVML counts.
    assert trace_decides(parse("max_energy_per_step", "3J"), 12) is None
