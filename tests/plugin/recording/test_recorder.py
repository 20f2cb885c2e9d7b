"""The whole of a recording, on the CPU."""

from __future__ import annotations

import gc
import gzip
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.live_block import LiveBlock, parse_live_block
from pytest_gpuperf.recording import Options, Recorded, RecordingError, record, region

torch = pytest.importorskip("torch")

QUICK = Options(warmup_s=0.02, max_time_s=0.05, measure_peak=False)
CPU = torch.device("cpu")


def load(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def spans(trace: dict[str, Any], start: str) -> list[dict[str, Any]]:
    """Complete events whose name begins with `start`, in time order."""
    found = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["name"].startswith(start)]
    return sorted(found, key=lambda e: e["ts"])


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., Recorded]:
    """Records with quick options; afterwards the process must be as it was."""

    def run(step: Callable[[], object], options: Options = QUICK, **more: Any) -> Recorded:
        path = tmp_path / more.pop("file", "t.json.gz")
        try:
            return record(step, device=CPU, trace_path=path, options=options, **more)
        finally:
            assert gc.isenabled()
            assert gc.get_freeze_count() < 1000  # Python 3.12 freezes a few hundred itself
            assert not torch.autograd._profiler_enabled()
            assert [p.name for p in tmp_path.iterdir()] in ([], [path.name])

    return run


def test_the_first_calls_value_comes_back_and_the_block_stands_in_the_trace(
    measured: Callable[..., Recorded],
) -> None:
    a, b = torch.randn(32, 48), torch.randn(48, 16)
    calls = []

    def step() -> tuple[int, torch.Tensor]:
        calls.append(1)
        return len(calls), a @ b

    done = measured(step, name="mm")
    assert done.value[0] == 1
    assert torch.equal(done.value[1], a @ b)
    trace = load(done.trace_path)
    assert parse_live_block(trace["gpuperf"]) == done.block
    assert done.block.name == "mm"
    assert done.block.flops == 2 * 32 * 48 * 16  # 2·M·N·K
    assert done.block.flops_by_dtype == {"fp32": 2 * 32 * 48 * 16}
    assert [e["name"] for e in spans(trace, "ProfilerStep")] == [
        "ProfilerStep#1",
        "ProfilerStep#2",
        "ProfilerStep#3",
    ]


def test_the_block_stands_before_the_events_so_that_it_survives_truncation(
    measured: Callable[..., Recorded],
) -> None:
    text = measured(lambda: None, file="t.json").trace_path.read_text()
    assert 0 < text.index('"gpuperf"') < text.index('"traceEvents"')


def test_as_many_steps_are_recorded_as_asked_for_each_with_one_call(
    measured: Callable[..., Recorded],
) -> None:
    a = torch.randn(16, 16)
    trace = load(measured(lambda: a @ a, Options(0.01, 0.01, steps=7)).trace_path)
    steps, ops = spans(trace, "ProfilerStep"), spans(trace, "aten::mm")
    assert len(steps) == len(ops) == 7
    for step, op in zip(steps, ops, strict=True):
        assert step["ts"] <= op["ts"]
        assert op["ts"] + op["dur"] <= step["ts"] + step["dur"]


def test_samples_are_the_time_of_a_call(measured: Callable[..., Recorded]) -> None:
    done = measured(lambda: time.sleep(0.01), Options(0.02, 0.2)).block
    # sleep never returns early; how late it is depends on the machine.
    assert min(done.samples_us) >= 10_000
    assert sum(done.samples_us) <= 1e6
    assert done.first_call_us >= 10_000
    assert done.warmup_us >= 10_000 * done.warmup_calls
    assert (done.timer, done.device, done.device_type) == ("wall", "cpu", "cpu")


def test_setup_and_teardown_surround_every_call_and_stay_out_of_time_and_step_spans(
    measured: Callable[..., Recorded],
) -> None:
    order: list[str] = []
    a, b = torch.randn(16, 16), torch.randn(8, 8)

    def setup() -> None:
        order.append("setup")
        time.sleep(0.003)
        torch.relu(b)

    def step() -> None:
        order.append("step")
        a @ a

    done = measured(step, setup=setup, teardown=lambda: order.append("teardown"))
    assert order == ["setup", "step", "teardown"] * (len(order) // 3)
    assert sorted(done.block.samples_us)[len(done.block.samples_us) // 2] < 3000
    trace = load(done.trace_path)
    for relu in spans(trace, "aten::relu"):
        assert not any(
            s["ts"] <= relu["ts"] <= s["ts"] + s["dur"] for s in spans(trace, "ProfilerStep")
        )
    assert len(spans(trace, "aten::relu")) == 3


@pytest.mark.parametrize("fails_at", [1, 2, 5, 40])
def test_an_exception_of_the_workload_comes_through_and_all_is_restored(
    measured: Callable[..., Recorded], fails_at: int
) -> None:
    calls = []

    def step() -> None:
        calls.append(1)
        if len(calls) == fails_at:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match=r"^mine$") as caught:
        measured(step, Options(0.02, 0.05, measure_peak=False))
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize("profiled_call", [1, 2, 4])
def test_an_exception_under_the_profiler_leaves_no_file_and_no_profiler(
    measured: Callable[..., Recorded], profiled_call: int
) -> None:
    seen = []

    def step() -> None:
        if torch.autograd._profiler_enabled():
            seen.append(1)
            if len(seen) == profiled_call:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(step)
    assert measured(lambda: 3).value == 3


def test_an_earlier_trace_stays_whole_when_a_later_recording_fails(
    measured: Callable[..., Recorded],
) -> None:
    path = measured(lambda: None).trace_path
    before = path.read_bytes()

    def step() -> None:
        if torch.autograd._profiler_enabled():
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        measured(step)
    assert path.read_bytes() == before


def test_an_active_profiler_is_refused_and_keeps_its_events(
    measured: Callable[..., Recorded],
) -> None:
    a = torch.randn(4, 4)
    with torch.profiler.profile() as outer:
        a @ a
        with pytest.raises(RecordingError, match="already active"):
            record(lambda: None, device=CPU, trace_path=Path("never.json"))
        a @ a
    assert sum(e.name == "aten::mm" for e in outer.events()) == 2


def test_a_profiler_of_another_thread_is_refused() -> None:
    ready, leave = threading.Event(), threading.Event()

    def work() -> None:
        with torch.profiler.profile():
            ready.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(10)
        with pytest.raises(RecordingError, match="already active"):
            record(lambda: None, device=CPU, trace_path=Path("never.json"))
    finally:
        leave.set()
        thread.join()


def test_a_scheduled_profiler_in_its_warm_up_is_refused_and_one_that_waits_is_not(
    measured: Callable[..., Recorded],
) -> None:
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=1)
    with torch.profiler.profile(schedule=schedule) as outer:
        assert measured(lambda: 1).value == 1
        outer.step()
        with pytest.raises(RecordingError, match="already active"):
            record(lambda: None, device=CPU, trace_path=Path("never.json"))


@pytest.mark.parametrize("late", [False, True])
def test_a_workload_with_a_profiler_of_its_own_is_refused_before_it_crashes(
    measured: Callable[..., Recorded], late: bool
) -> None:
    def step() -> None:
        if not late or torch.autograd._profiler_enabled():
            with torch.profiler.profile():
                pass

    with pytest.raises(RecordingError, match="starts a torch profiler itself"):
        measured(step)
    with torch.profiler.profile() as after:
        torch.ones(3) + 1
    assert any(e.name == "aten::add" for e in after.events())


def test_a_measurement_within_a_measurement_is_refused(measured: Callable[..., Recorded]) -> None:
    def step() -> None:
        record(lambda: None, device=CPU, trace_path=Path("never.json"))

    with pytest.raises(RecordingError, match="within another one's workload"):
        measured(step)


def test_a_coroutine_function_is_refused(measured: Callable[..., Recorded]) -> None:
    async def step() -> None:
        return

    with pytest.raises(RecordingError, match="coroutine function"):
        measured(step)


def test_a_generator_comes_back_unrun_with_a_note(measured: Callable[..., Recorded]) -> None:
    def step():
        yield 7

    done = measured(step)
    assert list(done.value) == [7]
    assert any("returns a generator" in note for note in done.block.notes)


def test_a_workload_that_destroys_its_inputs_is_served_by_setup(
    measured: Callable[..., Recorded],
) -> None:
    box: dict[str, torch.Tensor] = {}

    def setup() -> None:
        box["x"] = torch.ones(8, 8)

    def step() -> torch.Tensor:
        return box.pop("x") @ torch.ones(8, 8)

    assert measured(step, setup=setup).block.flops == 2 * 8**3
    with pytest.raises(KeyError, match="x"):
        measured(step)


def test_state_changed_in_place_is_the_workloads_own(measured: Callable[..., Recorded]) -> None:
    total, calls = torch.zeros(1), []

    def step() -> None:
        calls.append(1)
        total.add_(1)

    measured(step)
    assert total.item() == len(calls)


def test_a_compiled_workload_compiles_in_its_first_call_only(
    measured: Callable[..., Recorded],
) -> None:
    compiled = []

    def backend(graph, _inputs):
        compiled.append(1)
        time.sleep(0.2)
        return graph

    a = torch.randn(8, 8)

    def workload() -> torch.Tensor:
        return (a @ a).relu()

    done = measured(torch.compile(workload, backend=backend)).block
    assert compiled == [1]
    assert done.first_call_us >= 0.2e6
    assert max(done.samples_us) < 0.2e6
    assert done.flops == 2 * 8**3


def test_inference_mode_around_and_within_is_fine(measured: Callable[..., Recorded]) -> None:
    a = torch.randn(8, 8)

    def step() -> torch.Tensor:
        with torch.inference_mode():
            return a @ a

    assert measured(step).block.flops == 2 * 8**3
    with torch.inference_mode():
        assert measured(step).block.flops == 2 * 8**3


def test_work_on_threads_is_said(measured: Callable[..., Recorded]) -> None:
    a = torch.randn(8, 8)

    def step() -> None:
        thread = threading.Thread(target=torch.mm, args=(a, a))
        thread.start()
        thread.join()

    done = measured(step).block
    assert done.flops is None
    assert any("Python threads worked" in note for note in done.notes)


def test_the_peak_of_a_training_step_does_not_count_freed_gradients_twice(
    measured: Callable[..., Recorded],
) -> None:
    # One layer without bias: 256·128 weights in fp32 are 131,072 bytes, its gradient as many.
    layer, x = torch.nn.Linear(256, 128, bias=False), torch.ones(2, 256)

    def step() -> None:
        layer.weight.grad = None
        layer(x).sum().backward()

    step()
    trace = load(measured(step).trace_path)
    moves = [e for e in trace["traceEvents"] if e.get("name") == "[memory]" and e["args"]["Bytes"]]
    sums, total = [0], 0
    for move in sorted(moves, key=lambda e: e["ts"]):
        total += move["args"]["Bytes"]
        sums.append(total)
    # The gradient that is alive at the start is freed first and made again: growth stays far
    # below the size of a gradient (the output, its gradient and the sum are 2 kB).
    assert min(sums) <= -131_072
    assert max(sums) <= 4096
    assert trace["gpuperf"]["alive_bytes"] >= 2 * 131_072


def test_alive_bytes_are_those_before_the_profiled_steps(
    measured: Callable[..., Recorded],
) -> None:
    def step() -> None:
        torch.ones(100)

    empty = measured(step).block.alive_bytes
    kept = torch.zeros(250_000)
    assert measured(step).block.alive_bytes - empty == 1_000_000
    del kept


def test_regions_have_samples_limits_and_annotations(measured: Callable[..., Recorded]) -> None:
    def step() -> None:
        with region("a", max_step_time="3ms"):
            time.sleep(0.002)
        with region("b"):
            time.sleep(0.001)

    done = measured(step, Options(0.01, 0.1))
    assert set(done.block.regions) == {"a", "b"}
    assert done.region_limits == {"a": {"max_step_time": "3ms"}}
    for a, b, whole in zip(
        done.block.regions["a"], done.block.regions["b"], done.block.samples_us, strict=True
    ):
        assert a >= 2000
        assert b >= 1000
        assert a + b <= whole
    trace = load(done.trace_path)
    assert len(spans(trace, "gpuperf.region:a")) == len(spans(trace, "gpuperf.region:b")) == 3


def test_what_is_declared_stands_in_the_block(measured: Callable[..., Recorded]) -> None:
    options = Options(
        0.01, 0.01, flops=1e9, dtype="bf16", bytes=4096, items=32, items_unit="tokens",
        measure_peak=False,
    )  # fmt: skip
    block = measured(lambda: None, options).block
    assert (block.flops, block.model_flops, block.flops_source) == (10**9, 10**9, "declared")
    assert block.flops_by_dtype == {"bf16": 10**9}
    assert (block.bytes_moved, block.items, block.items_unit) == (4096, 32, "tokens")


def known_peaks(monkeypatch: pytest.MonkeyPatch, **peaks: float) -> None:
    from pytest_gpuperf.recording import cpu_peak

    monkeypatch.setattr(cpu_peak, "measured_cpu_peak", lambda dtype, *, search: peaks[dtype])


def test_the_cpus_measured_peak_goes_with_counted_flops(
    measured: Callable[..., Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:

    known_peaks(monkeypatch, fp32=0.5, fp64=0.25)
    a, b = torch.randn(8, 8), torch.randn(8, 8, dtype=torch.float64)

    def step() -> None:
        a @ a
        b @ b

    assert measured(step, Options(0.01, 0.01)).block.peak_tflops == {"fp32": 0.5, "fp64": 0.25}
    assert measured(step).block.peak_tflops == {}


@pytest.mark.parametrize(("known", "kept"), [(1e-9, 0.5), (1e9, 1e9)])
def test_a_peak_that_the_workload_betters_is_measured_again(
    measured: Callable[..., Recorded], monkeypatch: pytest.MonkeyPatch, known: float, kept: float
) -> None:
    from pytest_gpuperf.recording import cpu_peak

    # 1e-9 TFLOPS are 1000 FLOP a second; no CPU reaches 1e9 TFLOPS.
    peaks = {"better": known, "again": 0.5}
    monkeypatch.setattr(cpu_peak, "measured_cpu_peak", lambda _, *, search: peaks[search])
    a = torch.randn(8, 8)
    assert measured(lambda: a @ a, Options(0.01, 0.01)).block.peak_tflops == {"fp32": kept}


def test_a_peak_that_cannot_be_measured_is_absent_with_the_reason(
    measured: Callable[..., Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_gpuperf.recording import cpu_peak

    def busy(dtype: str, *, search: str) -> float:
        raise RecordingError(f"no {dtype} peak")

    monkeypatch.setattr(cpu_peak, "measured_cpu_peak", busy)
    a = torch.randn(8, 8)
    block = measured(lambda: a @ a, Options(0.01, 0.01)).block
    assert block.peak_tflops == {}
    assert "no fp32 peak" in block.notes


def test_a_trace_path_in_a_new_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "t.json"
    record(lambda: None, device=CPU, trace_path=path, options=QUICK)
    assert [p.name for p in path.parent.iterdir()] == ["t.json"]
    assert load(path)["gpuperf"]["schema"] == 1


def test_the_limits_are_asked_with_the_flops_and_the_peak_known(
    measured: Callable[..., Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:

    known_peaks(monkeypatch, fp32=0.5)
    a, told = torch.randn(16, 16), []

    def decided(samples: tuple[float, ...], block: LiveBlock) -> bool:
        told.append((block.flops, dict(block.peak_tflops), block.items, block.device))
        return len(told) == 2

    done = measured(lambda: a @ a, Options(0.01, 30.0, items=4), decided=decided)
    assert told == [(2 * 16**3, {"fp32": 0.5}, 4, "cpu")] * 2
    assert done.block.stop == "interval"


def test_a_trace_that_does_not_decide_is_made_again_with_twice_the_steps(
    measured: Callable[..., Recorded],
) -> None:
    a, seen = torch.randn(16, 16), []

    def enough(path: Path, config: object) -> bool:
        seen.append(len(spans(load(path), "ProfilerStep")))
        return len(seen) == 3

    options = Options(0.01, max_time_s=30.0, max_samples=10, steps=2, measure_peak=False)
    done = measured(lambda: a @ a, options, enough=enough)
    assert seen == [2, 4, 8]
    trace = load(done.trace_path)
    assert len(spans(trace, "ProfilerStep")) == done.block.steps == trace["gpuperf"]["steps"] == 8
    assert done.block.notes[-1] == "profiled again with 8 steps: fewer did not decide the limits"
    assert sum("profiled again" in note for note in done.block.notes) == 1


def test_profiling_again_ends_when_it_has_taken_the_time(
    measured: Callable[..., Recorded],
) -> None:
    done = measured(lambda: None, Options(0.01, max_time_s=0.01, steps=2), enough=lambda *_: False)
    assert done.block.steps == 2  # one pass takes longer than that


def test_ranks_take_turns_at_the_peak_and_a_busy_machine_is_searched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pytest_gpuperf.recording import cpu_peak, flops_of_call

    class Second:
        """Rank 1 of 2, where rank 0 found nothing."""

        rank, world_size = 1, 2

        def __init__(self) -> None:
            self.barriers = 0

        def agree(self, flag: bool, /) -> bool:
            assert flag  # it has not had its turn yet
            return False

        def barrier(self) -> None:
            self.barriers += 1

    second, turns = Second(), []

    def asked(dtype: str, *, search: str) -> float:
        turns.append((dtype, search, second.barriers))
        raise RecordingError("busy")

    monkeypatch.setattr(cpu_peak, "measured_cpu_peak", asked)
    assert flops_of_call._cpu_peaks(["fp32"], second) == ({}, ("busy",))
    assert turns == [("fp32", "never", 1)]
    assert second.barriers == 2


def test_tensors_that_calls_leave_alive_are_told_and_replaced_ones_are_not(
    measured: Callable[..., Recorded],
) -> None:
    kept: list[torch.Tensor] = []

    def leaking() -> None:
        if len(kept) < 400:
            kept.append(torch.randn(64, 1024))  # 256 KiB a call
        time.sleep(0.002)

    options = Options(0.01, 0.1, measure_peak=False)
    told = [note for note in measured(leaking, options).block.notes if "alive" in note]
    assert len(told) == 1
    last: list[torch.Tensor] = []

    def replacing() -> None:
        last[:] = [torch.randn(64, 1024)]
        time.sleep(0.002)

    clean = measured(replacing, options).block
    assert not any("alive" in note for note in clean.notes)


def test_an_input_of_zeros_is_told(measured: Callable[..., Recorded]) -> None:
    x = torch.zeros(64, 64)
    notes = measured(lambda: x @ x).block.notes
    assert any("an input of shape 64x64 is all zeros" in note for note in notes)
