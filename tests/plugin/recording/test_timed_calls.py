"""Timers beside the host's clock and events: graphs and kernels; the L2 cache, cold or hot."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuperf_analyzers.live_block import TIMERS, LiveBlock
from gpuperf_analyzers.live_values import live_values
from gpuperf_analyzers.trace import read_trace
from kineto import KinetoTrace
from pytest_gpuperf.recording import (
    Options,
    RecordingError,
    graph_replay,
    kernel_time,
    l2_cache,
    record,
)
from pytest_gpuperf.recording import options as recording_options
from pytest_gpuperf.recording.coordination import SOLO
from pytest_gpuperf.recording.sampling import Samples, Workload
from pytest_gpuperf.recording.timed_calls import TimedCalls, timed_calls
from pytest_gpuperf.session import declaration

torch = pytest.importorskip("torch")

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
EVENT, GRAPH = SimpleNamespace(name="event"), SimpleNamespace(name="graph")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")


def stand_in(monkeypatch: pytest.MonkeyPatch, log: list[str], cache: int = 1000) -> None:
    """A torch whose streams and graphs note what is done; a replay notes what was captured."""

    class Stream:
        def __init__(self, *_: object) -> None:
            return

        def wait_stream(self, _: object) -> None:
            log.append("wait_stream")

    class Graph:
        captured: list[str]

        def replay(self) -> None:
            log.extend(f"replayed {each}" for each in self.captured)

    @contextmanager
    def capturing(graph: Graph) -> Iterator[None]:
        since = len(log)
        yield
        graph.captured = log[since:]

    @contextmanager
    def on(_: object) -> Iterator[None]:
        yield

    buffer = SimpleNamespace(zero_=lambda: log.append("flush"))

    def empty(size: int, **_: object) -> Any:
        log.append(f"buffer of {size}")
        return buffer

    cuda = SimpleNamespace(
        Stream=Stream, CUDAGraph=Graph, graph=capturing, stream=on,
        current_stream=lambda _: Stream(), synchronize=lambda _: log.append("sync"),
        get_device_properties=lambda _: SimpleNamespace(L2_cache_size=cache),
    )  # fmt: skip
    fake = SimpleNamespace(cuda=cuda, empty=empty, int8=torch.int8, Tensor=torch.Tensor)
    for module in (graph_replay, l2_cache):
        monkeypatch.setattr(module, "import_torch", lambda: fake)


def calls_of(
    workload: Workload, timer: Any, call_us: float, l2: str | None = None, device: Any = GPU
) -> TimedCalls:
    return timed_calls(workload, device, timer, Options(l2=l2), call_us, SOLO)


def noting(log: list[str], what: str = "call") -> Callable[[], None]:
    return lambda: log.append(what)


def test_short_calls_are_captured_together_and_samples_are_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[str] = []
    stand_in(monkeypatch, log)
    made = calls_of(Workload(noting(log)), GRAPH, 12.5)
    assert made.calls == 16  # 200 µs / 12.5 µs
    assert made.call_us == 200.0
    assert log.count("call") == 3 + 16  # three before the capture, so that libraries are set up
    log.clear()
    made.workload()
    assert log == ["replayed call"] * 16
    assert made.per_call(Samples((160.0, 320.0), "interval", 2)).us == (10.0, 20.0)
    assert made.per_call(Samples((160.0,), "interval", 2)).calls_per_sample == 32
    asked: list[tuple[float, ...]] = []
    ask = made.asking(lambda us: bool(asked.append(us)))
    assert ask is not None
    ask((160.0,))
    assert asked == [(10.0,)]
    assert made.notes[0].startswith("16 calls captured as a CUDA graph")


def test_a_cold_cache_is_flushed_after_each_setup_with_twice_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[str] = []
    stand_in(monkeypatch, log, cache=1000)
    made = calls_of(Workload(noting(log), noting(log, "setup")), EVENT, 5.0, "cold")
    made.workload()
    assert log == ["buffer of 2000", "setup", "flush", "call"]
    assert not made.workload.plain  # so that calls are not timed together


@pytest.mark.parametrize("l2", [None, "hot"])
def test_a_hot_cache_is_left_alone(monkeypatch: pytest.MonkeyPatch, l2: str | None) -> None:
    log: list[str] = []
    stand_in(monkeypatch, log)
    workload = Workload(noting(log))
    assert calls_of(workload, EVENT, 5.0, l2).workload is workload


def test_a_cold_graph_without_inputs_of_its_own_holds_one_call_and_is_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[str] = []
    stand_in(monkeypatch, log)
    made = calls_of(Workload(noting(log)), GRAPH, 5.0, "cold")
    log.clear()
    made.workload()
    assert (made.calls, log) == (1, ["flush", "replayed call"])


def test_inputs_rotate_over_copies_that_are_twice_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(l2_cache, "cache_bytes", lambda _: 4096)
    a, b = torch.randn(16, 16, requires_grad=True), torch.randn(16, 16)
    calls = l2_cache.rotated(partial(torch.mm, a, mat2=b), CPU)
    assert calls is not None
    assert len(calls) == 5  # 2·4096 bytes over the 2·16·16·4 of one call, and one more
    lefts = [call.args[0] for call in calls]  # type: ignore[attr-defined]
    assert len({left.data_ptr() for left in lefts}) == 5
    assert all(left.requires_grad and left.is_leaf for left in lefts)
    assert all(torch.equal(call(), a @ b) for call in calls)  # type: ignore[arg-type]
    assert l2_cache.rotated(lambda: a @ b, CPU) is None


def test_what_cannot_be_had_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    stand_in(monkeypatch, log, cache=0)
    with pytest.raises(RecordingError, match="needs the size of the L2 cache"):
        calls_of(Workload(noting(log)), EVENT, 5.0, "cold")
    with pytest.raises(RecordingError, match="with setup or teardown takes timer='event'"):
        calls_of(Workload(noting(log), noting(log)), GRAPH, 5.0)
    calls = 0

    def reads_a_value() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    with pytest.raises(RecordingError, match=r"cannot be captured.*stream is capturing\): take"):
        calls_of(Workload(reads_a_value), GRAPH, 5.0)


def test_on_a_cpu_a_cache_option_is_said_not_to_apply(tmp_path: Path) -> None:
    options = Options(0.01, 0.02, measure_peak=False, l2="cold")
    block = record(lambda: None, device=CPU, trace_path=tmp_path / "t.json", options=options).block
    assert "l2='cold' is not applicable to a CPU: its caches are as calls leave them" in block.notes


def test_a_kernel_sample_is_the_union_of_the_steps_kernels(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=5, runs=(20, 40))
        t.launch("b", at=6, runs=(30, 45))  # overlaps a: 25 µs in all
    with t.step(2, at=50, dur=50):
        t.launch("a", at=55, runs=(60, 70))
        t.launch("b", at=56, runs=(80, 95))  # 10 and 15 µs
    trace = read_trace(t.write(tmp_path / "t.json"))
    assert kernel_time.kernel_samples(trace, 0) == (25.0, 25.0)
    with pytest.raises(RecordingError, match="shows no kernel"):
        kernel_time.kernel_samples(trace, 1)


def test_names_of_timers_are_the_same_everywhere_and_say_what_they_measure() -> None:
    assert declaration.TIMERS == tuple(TIMERS) == recording_options.TIMERS
    assert typing.get_args(recording_options.L2) == declaration.L2
    block = LiveBlock(device_type="cuda", timer="graph", l2="cold", samples_us=(1.0, 2.0))
    source = live_values(block, peaks=())["step_time"].source
    assert source == (
        "timed with the profiler off, events around replays of a CUDA graph, cold L2 cache"
    )


@needs_gpu
@pytest.mark.parametrize("l2", ["hot", "cold"])
def test_on_a_gpu_a_graph_of_short_kernels_is_faster_than_their_launches(
    tmp_path: Path, l2: str
) -> None:
    x = torch.randn(256, device=GPU)

    def median(timer: str) -> float:
        options = Options(0.1, 0.3, timer=timer, l2=l2, steps=1)
        path = tmp_path / f"{timer}.json"
        block = record(
            partial(torch.add, x, 1.0), device=GPU, trace_path=path, options=options
        ).block
        return sorted(block.samples_us)[len(block.samples_us) // 2]

    assert median("graph") < median("wall")
    assert median("kernel") < median("wall")
