"""A recording on CUDA: on a GPU where there is one, and against stand-ins where there is none."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.recording import Options, record
from pytest_gpuperf.recording.clock_reasons import ClockReason
from pytest_gpuperf.recording.sampling import Samples
from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler
from pytest_gpuperf.recording.telemetry.series import Series
from pytest_gpuperf.recording.telemetry.summary import Telemetry

torch = pytest.importorskip("torch")

GPU = torch.device("cuda", 0)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")


class Stand:
    """torch.cuda's functions that a recording uses, on the host's clock; `log` has their order."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stand = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                stand.log.append("event")
                self.at = time.perf_counter()

            def elapsed_time(self, end: Event) -> float:
                return (end.at - self.at) * 1e3

        @contextmanager
        def current(device: torch.device) -> Iterator[None]:
            assert device == GPU
            stand.log.append("enter")
            yield
            stand.log.append("leave")

        def logged(name: str, value: Any = None) -> Any:
            def call(*_: Any) -> Any:
                stand.log.append(name)
                return value

            return call

        for name, value in {
            "Event": Event,
            "device": current,
            "synchronize": logged("wait"),
            "reset_peak_memory_stats": logged("reset"),
            "max_memory_allocated": logged("peak", 5000),
            "memory_allocated": logged("alive", 3000),
            "get_device_name": logged("name", "NVIDIA H200"),
            "get_device_capability": logged("capability", (9, 0)),
            "get_device_properties": logged("properties", SimpleNamespace(uuid="1")),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU itself is tested")
@pytest.mark.filterwarnings("ignore:CUDA is not available:UserWarning")
@pytest.mark.filterwarnings("ignore:.*CUDA.*:UserWarning")
def test_a_gpu_is_timed_by_events_with_its_allocators_peak_and_nvml_beside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand = Stand()
    stand.install(monkeypatch)
    watched: list[tuple[str, ...]] = []

    class Sampler(TelemetrySampler):
        def __init__(self, uuids: Sequence[str]) -> None:
            watched.append(tuple(uuids))
            super().__init__(())
            # Heat held the clock down before the window, and no reading says that it ended.
            self.watched.opening["reasons"] = float(ClockReason.SW_THERMAL_SLOWDOWN)
            self.watched.series["reasons"] = Series()
            self.watched.series["reasons"].add(1, float(ClockReason.SW_THERMAL_SLOWDOWN))

    seen = Telemetry({"sm_clock": {"value": 1980.0, "n": 9.0}}, {"sm_active": "not here"})
    monkeypatch.setattr("pytest_gpuperf.recording.gpu_watch.TelemetrySampler", Sampler)
    monkeypatch.setattr("pytest_gpuperf.recording.gpu_watch.telemetry_of", lambda *_: seen)
    a = torch.randn(16, 16)

    def step() -> None:
        stand.log.append("step")
        a @ a
        time.sleep(0.002)

    done = record(
        step, device=GPU, trace_path=tmp_path / "t.json", options=Options(0.01, 0.5, steps=2)
    )
    block = done.block
    assert (block.device, block.device_type, block.timer) == ("NVIDIA H200", "cuda", "event")
    assert (block.alive_bytes, block.peak_bytes) == (3000, 5000)
    assert block.tf32 is False
    assert block.peak_tflops == {}  # a GPU's peak stands in the table
    assert block.telemetry["sm_clock"]["value"] == 1980.0
    assert block.telemetry_absent == {"sm_active": "not here"}
    assert watched[0] == ("GPU-1", "MIG-1")
    assert min(block.samples_us) >= 2000
    count = len(block.samples_us)
    assert block.throttled_samples == tuple(range(count))
    assert f"{count} of {count} samples were taken while the clock was held down" in block.notes
    assert stand.log.count("event") == 2 * len(block.samples_us)
    # Peak statistics are of the samples alone: reset before the first event, read after the last.
    first = stand.log.index("event")
    last = len(stand.log) - 1 - stand.log[::-1].index("event")
    assert stand.log.index("reset") < first < last < stand.log.index("peak")
    # A round is primed by a call before its first event, and nothing waits between its samples.
    assert stand.log[first - 1] == "step"
    assert "wait" not in stand.log[first : first + 6]
    trace = json.loads(done.trace_path.read_text())
    assert sum(e.get("name", "").startswith("ProfilerStep") for e in trace["traceEvents"]) == 2


@needs_gpu
def test_on_a_gpu_events_and_the_hosts_clock_agree_on_a_long_matmul(tmp_path: Path) -> None:
    a = torch.randn(4096, 4096, device=GPU, dtype=torch.float16)

    def median(timer: str) -> float:
        options = Options(0.3, 0.5, timer=timer)
        path = tmp_path / f"{timer}.json"
        block = record(lambda: a @ a, device=GPU, trace_path=path, options=options).block
        assert block.flops == 2 * 4096**3
        assert block.flops_by_dtype == {"fp16": 2 * 4096**3}
        return sorted(block.samples_us)[len(block.samples_us) // 2]

    # The host's clock adds a launch and a wait, tens of µs to a matmul of hundreds.
    assert median("event") <= median("wall") * 1.05
    assert median("wall") <= median("event") + 200


@needs_gpu
def test_on_a_gpu_the_peak_is_the_allocators_and_every_step_has_its_kernel(tmp_path: Path) -> None:
    a = torch.randn(1024, 1024, device=GPU)

    def step() -> None:
        b = a @ a
        del b

    before = torch.cuda.memory_allocated(GPU)
    done = record(step, device=GPU, trace_path=tmp_path / "t.json", options=Options(0.1, 0.1))
    # One product of 4 MiB lives beside what was there; cuBLAS may keep a workspace too.
    assert done.block.peak_bytes is not None
    assert done.block.peak_bytes >= before + 4 * 2**20
    trace = json.loads(done.trace_path.read_text())
    kernels = [e for e in trace["traceEvents"] if str(e.get("cat", "")).lower() == "kernel"]
    assert len(kernels) >= 3


@needs_gpu
def test_on_a_gpu_counters_are_read_over_a_loop_and_drawn_in_the_trace(tmp_path: Path) -> None:
    from gpuperf_analyzers import read_trace
    from gpuperf_analyzers.metrics import TELEMETRY

    a = torch.randn(4096, 4096, device=GPU, dtype=torch.float16)
    options = Options(0.3, 0.3, counters_s=1.5)
    path = tmp_path / "t.json"
    block = record(lambda: a @ a, device=GPU, trace_path=path, options=options).block
    seen = {name: summary["value"] for name, summary in block.telemetry.items()}
    assert seen["window"] >= 1.5
    assert seen["sampler_cost"] < 0.01
    assert 300 < seen["sm_clock"] < 4000
    assert 0.5 < seen["gpu_util"] <= 1  # back to back matmuls
    # Every metric has a value or the reason that it has none.
    assert TELEMETRY - set(seen) - {"step_cycles"} <= set(block.telemetry_absent)
    for name in ("sm_active", "tensor_active", "dram_active", "sm_occupancy"):
        if name in seen:
            assert 0 < seen[name] <= 1, name
    if "energy_per_step" in seen:
        # Energy over the time of a call is a power that a board can have.
        watts = seen["energy_per_step"] / (sorted(block.samples_us)[0] / 1e6)
        assert 20 < watts < 3000
    trace = read_trace(path)
    tracks = {trace.strings[name] for name in trace.counters.name}
    assert {"sm_clock", "throttled"} <= tracks


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    """A GPU's stand-in whose graphs call again what was captured, and no NVML."""
    if torch.cuda.is_available():
        pytest.skip("the GPU itself is tested")
    made = Stand()
    made.install(monkeypatch)

    class Stream:
        def __init__(self, *_: Any) -> None:
            return

        def wait_stream(self, _: Any) -> None:
            return

    class Graph:
        def replay(self) -> None:
            made.log.append("replay")
            time.sleep(0.001)

    @contextmanager
    def block(_: Any) -> Iterator[None]:
        yield

    for name, value in {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "graph": block,
        "stream": block,
        "current_stream": Stream,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)

    class Sampler(TelemetrySampler):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__(())

    monkeypatch.setattr("pytest_gpuperf.recording.gpu_watch.TelemetrySampler", Sampler)
    monkeypatch.setattr("pytest_gpuperf.recording.gpu_watch.telemetry_of", lambda *_: Telemetry())
    return made


@pytest.mark.filterwarnings("ignore:.*CUDA.*:UserWarning")
def test_a_recording_by_graph_samples_replays_in_time_a_call(stand: Stand, tmp_path: Path) -> None:
    options = Options(0.05, 0.2, steps=1, timer="graph")
    block = record(
        lambda: time.sleep(20e-6), device=GPU, trace_path=tmp_path / "t.json", options=options
    ).block
    assert block.timer == "graph"
    assert "replay" in stand.log
    (told,) = [note for note in block.notes if "captured as a CUDA graph" in note]
    calls = int(told.split()[0])
    assert calls in (1, 2, 4, 8)  # 200 µs over a sleep of 20 µs and what the machine adds
    # A replay sleeps 1 ms whatever was captured, so that a call is its share of that.
    assert min(block.samples_us) >= 1000 / calls
    assert min(block.samples_us) < 100 * 1000 / calls


@pytest.mark.filterwarnings("ignore:.*CUDA.*:UserWarning")
def test_a_recording_by_kernels_takes_its_samples_from_profiled_steps(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Samples((5.0, 6.0, 7.0), "samples", 1)
    monkeypatch.setattr("pytest_gpuperf.recording.recorder.take_kernel_samples", lambda *_: taken)
    options = Options(0.01, 0.05, steps=1, timer="kernel")
    block = record(
        lambda: time.sleep(0.001), device=GPU, trace_path=tmp_path / "t.json", options=options
    ).block
    assert (block.timer, block.samples_us, block.stop) == ("kernel", taken.us, "samples")
    # Notes are of these samples, and not of those by events.
    assert any("only 3 samples" in note for note in block.notes)
    assert not any("mean of" in note or "queue" in note for note in block.notes)
