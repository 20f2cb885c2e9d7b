"""Memory from a trace's allocation events, to the byte."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.memory import OUTSIDE_OPS, MemoryResult, analyze
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace

MIB = 2**20


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def analyzed(
    trace: KinetoTrace, tmp_path: Path, config: Config, device: Any = "cpu"
) -> tuple[MemoryResult, Value]:
    result = analyze(read_trace(trace.write(tmp_path / "t.json")), config, device)
    value, *_ = result.metrics()  # allocations are tested with exact counts
    return result, value


def allocations(*changes: tuple[float, int, int], start: int = 0, **where: int) -> KinetoTrace:
    """A CPU trace with (time, bytes, address) events whose recorded total begins at `start`."""
    t = KinetoTrace(device_name=None)
    t.op("aten::empty", 0, 15)
    t.op("aten::mm", 20, 20)
    total = start
    for at, size, address in changes:
        total += size
        t.memory(at, size, total, address=address, **where)
    return t


def test_the_peak_is_the_largest_sum_of_allocations_less_frees(
    tmp_path: Path, config: Config
) -> None:
    t = allocations((1, 100, 1), (5, 50, 2), (10, -100, 1), (25, 70, 3), (30, -50, 2), (50, 20, 4))
    result, value = analyzed(t, tmp_path, config)
    assert result.allocated_bytes == (100, 150, 50, 120, 70, 90)
    assert value.name == "peak_memory_growth"
    assert value.value == 150
    assert (result.peak_us, result.peak_op) == (5.0, "aten::empty")
    assert result.total_peak == 150


def test_what_was_alive_at_the_peak_and_what_was_never_freed_is_named(
    tmp_path: Path, config: Config
) -> None:
    t = allocations((1, 100, 1), (5, 50, 2), (10, -100, 1), (25, 90, 3), (30, 40, 1), (45, -50, 2))
    result, value = analyzed(t, tmp_path, config)
    assert value.value == 50 + 90 + 40
    alive = [(a.bytes, a.op, a.at_us, a.freed_us) for a in result.alive_at_peak]
    assert alive == [
        (90, "aten::mm", 25.0, None),
        (50, "aten::empty", 5.0, 45.0),
        (40, "aten::mm", 30.0, None),
    ]
    assert sum(a.bytes for a in result.alive_at_peak) == result.peak_growth
    assert (result.never_freed_count, result.never_freed_bytes) == (2, 130)


def test_an_address_used_again_is_another_allocation(tmp_path: Path, config: Config) -> None:
    t = allocations((1, 10, 7), (2, -10, 7), (3, 30, 7), (4, -30, 7), (5, 20, 7))
    result, _ = analyzed(t, tmp_path, config)
    assert [(a.bytes, a.freed_us) for a in result.alive_at_peak] == [(30, 4.0)]
    assert [a.bytes for a in result.never_freed] == [20]


def test_churn_counts_each_ops_allocations_and_what_it_kept(tmp_path: Path, config: Config) -> None:
    t = allocations((1, 10, 1), (2, -10, 1), (3, 10, 1), (25, 40, 2), (60, 5, 3))
    result, _ = analyzed(t, tmp_path, config)
    assert [(o.op, o.allocations, o.bytes, o.kept_bytes) for o in result.by_op] == [
        ("aten::mm", 1, 40, 40),
        ("aten::empty", 2, 20, 10),
        (OUTSIDE_OPS, 1, 5, 5),
    ]


def test_memory_older_than_the_recording_can_only_shrink_it(tmp_path: Path, config: Config) -> None:
    t = allocations((1, -500, 9), (5, 100, 1), start=1000)
    result, value = analyzed(t, tmp_path, config)
    assert value.value == 0
    assert (result.freed_older, result.freed_older_bytes) == (1, 500)
    assert result.allocated_bytes == (-500, -400)
    assert result.total_peak == 600


def test_lost_events_are_seen_in_the_totals_and_leave_no_number(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::empty", 0, 15)
    t.memory(1, 100, 100)
    t.memory(5, 50, 230, address=2)  # 80 bytes came in between, unseen
    result, value = analyzed(t, tmp_path, config)
    assert result.unaccounted_bytes == 80
    assert "lost" in str(value.absent_reason)


def test_without_memory_events_the_number_is_absent_and_the_mend_is_named(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::mm", 0, 10)
    _, value = analyzed(t, tmp_path, config)
    assert "profile_memory=True" in str(value.absent_reason)


@pytest.mark.parametrize("device_type", [1, 6])  # CUDA, HIP
def test_each_device_has_its_own_memory_and_the_hosts_is_not_a_gpus(
    tmp_path: Path, config: Config, device_type: int
) -> None:
    t = KinetoTrace()
    t.launch("k", 0, (5, 10))
    t.launch("k", 20, (25, 30), device=1)
    t.memory(1, 100, 100, device_type=device_type, device=0)
    t.memory(2, 7, 7, device_type=device_type, device=1)
    t.memory(3, 1000, 1000, device_type=0)
    path = t.write(tmp_path / "t.json")
    peaks = [analyze(read_trace(path), config, d).peak_growth for d in (0, 1, 2)]
    assert peaks == [100, 7, 0]


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 0),
        ("tracelens-h100/gaunernst_bert-small-uncased__1016001.json.gz", 0),
        ("hta-df-index-resolver/df_index_resolver.json.gz", 1),
        ("local-torch214-cpu/cpu_full_options_3steps.pt.trace.json.gz", "cpu"),
        ("local-torch214-cpu/fsdp2_gloo_2ranks/rank1.pt.trace.json.gz", "cpu"),
    ],
)
def test_the_sums_of_real_traces_are_the_allocators_own_totals(
    name: str, device: Any, shared_traces: Path, config: Config
) -> None:
    trace = read_trace(shared_traces / name)
    result = analyze(trace, config, device)
    m = trace.memory
    mine = (m.device_type == 0) if device == "cpu" else (m.device_type != 0) & (m.device == device)
    totals = m.total_allocated[mine].tolist()
    before = totals[0] - int(m.bytes[mine][0])
    assert [before + growth for growth in result.allocated_bytes] == totals
    assert result.peak_growth == max(totals) - before
    assert result.total_peak == max(totals)
    born_inside = sum(a.bytes for a in result.alive_at_peak)
    if result.alive_at_peak_count <= len(result.alive_at_peak) and not result.freed_older:
        assert born_inside == result.peak_growth


def test_a_run_on_this_cpu_peaks_at_the_bytes_it_asked_for(tmp_path: Path, config: Config) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "trace.json"
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        first = torch.empty(MIB, dtype=torch.uint8)
        second = torch.empty(2 * MIB, dtype=torch.uint8)
        del first
        third = torch.empty(4 * MIB, dtype=torch.uint8)
        del second
    profile.export_chrome_trace(str(path))
    result = analyze(read_trace(path), config, "cpu")
    assert result.peak_growth == 6 * MIB
    assert [a.bytes for a in result.alive_at_peak] == [4 * MIB, 2 * MIB]
    assert [a.bytes for a in result.never_freed] == [4 * MIB]
    assert third.numel() == 4 * MIB


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 1000)), min_size=1, max_size=60),
)
def test_peak_and_survivors_agree_with_a_plain_simulation(moves: list[tuple[int, int]]) -> None:
    # Each move frees the address where it holds memory and allocates there where it does not.
    t = KinetoTrace(device_name=None)
    t.op("aten::empty", 0, 100_000)
    alive: dict[int, int] = {}
    total, peak, at_peak = 0, 0, {}
    for i, (address, size) in enumerate(moves):
        change = -alive.pop(address) if address in alive else size
        if change > 0:
            alive[address] = size
        total += change
        if total > peak:
            peak, at_peak = total, dict(alive)
        t.memory(1.0 + i, change, total, address=4096 + address)
    with tempfile.TemporaryDirectory() as folder:
        result = analyze(read_trace(t.write(Path(folder) / "t.json")), load_config(), "cpu")
    assert result.peak_growth == peak
    assert sorted(a.bytes for a in result.alive_at_peak) == sorted(at_peak.values())
    assert sorted(a.bytes for a in result.never_freed) == sorted(alive.values())
    assert result.unaccounted_bytes == 0


@pytest.mark.parametrize("steps", [1, 3])
def test_the_peak_is_to_the_byte_that_of_torchs_own_memory_timeline(
    steps: int, tmp_path: Path, config: Config
) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters())
    batch, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        record_shapes=True, profile_memory=True, with_stack=True,
    ) as profile:  # fmt: skip
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    timeline = profile._memory_profile().timeline
    change = {"CREATE": 1, "DESTROY": -1}  # a new version of a tensor is the same memory
    total = peak = 0
    for _, action, _, size in timeline:
        total += change.get(action.name, 0) * size
        peak = max(peak, total)
    result = analyze(read_trace(tmp_path / "trace.json"), config, "cpu")
    assert result.peak_growth == peak
    assert result.allocated_bytes[-1] == total


def test_what_the_allocator_holds_is_beside_what_it_gave_out(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.launch("k", 0, (5, 10))
    t.memory(1, 100, 100, device_type=1, device=0)
    t.memory(2, 50, 150, device_type=1, device=0, address=5)
    for event, reserved in zip(t.events[-2:], (2 * MIB, 4 * MIB), strict=True):
        event["args"]["Total Reserved"] = reserved
    result, _ = analyzed(t, tmp_path, config, 0)
    assert result.reserved_bytes == (2 * MIB, 4 * MIB)
    assert result.reserved_peak == 4 * MIB
    assert result.to_frame()["reserved_bytes"].tolist() == [2 * MIB, 4 * MIB]
