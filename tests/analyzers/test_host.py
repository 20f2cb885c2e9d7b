"""The host's side, on timelines drawn by hand. Times in µs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import host
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.host import Host
from gpuperf_analyzers.metrics import BUILTIN, Value
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.calls import (
    is_allocation,
    is_blocking_copy,
    is_launch,
    is_synchronize,
)
from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS
from gpuperf_analyzers.trace.copies import direction, host_memory
from kineto import KinetoTrace

CONFIG = Config({m.name: m for m in BUILTIN}, comm_classifiers=BUILTIN_CLASSIFIERS)


def analyzed(trace: KinetoTrace, folder: Path, device=0) -> Host:
    return host.analyze(read_trace(trace.write(folder / "trace.json")), CONFIG, device)


def values(result: Host) -> dict[str, Value]:
    return {v.name: v for v in result.metrics()}


@pytest.mark.parametrize(
    "name",
    ["cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cudaGraphLaunch",
     "cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch", "hipLaunchKernel", "hipGraphLaunch",
     "hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipExtLaunchKernel"],
)  # fmt: skip
def test_every_launch_call_of_cuda_and_hip_is_known(name: str) -> None:
    assert is_launch(name)
    assert not is_synchronize(name)
    assert not is_blocking_copy(name)


@pytest.mark.parametrize(
    "name",
    ["cudaLaunchHostFunc", "cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent",
     "cudaFuncGetAttributes", "cudaEventQuery", "cudaMemsetAsync", "hipMemcpyDtoHAsync"],
)  # fmt: skip
def test_other_calls_are_neither_launches_nor_waits(name: str) -> None:
    assert not is_launch(name)
    assert not is_synchronize(name)
    assert not is_blocking_copy(name)
    assert not is_allocation(name)


def test_waits_copies_and_allocations_are_told_by_name() -> None:
    syncs = ["cudaStreamSynchronize", "hipDeviceSynchronize", "cuEventSynchronize",
             "cuCtxSynchronize"]  # fmt: skip
    assert all(map(is_synchronize, syncs))
    assert all(map(is_blocking_copy, ["cudaMemcpy", "hipMemcpyWithStream", "cuMemcpyDtoH_v2"]))
    assert all(map(is_allocation, ["cudaMalloc", "hipFree", "cudaHostAlloc", "cuMemCreate"]))
    assert not is_allocation("cudaMallocAsync")


def test_launches_are_counted_by_the_step_they_begin_in_and_the_worst_is_named(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=5, runs=(20, 40))
    with t.step(2, at=50, dur=50):
        t.launch("a", at=55, runs=(60, 70), call="cudaLaunchKernelExC")
        t.launch("a", at=58, runs=(70, 80), call="cuLaunchKernel")
        t.runtime("cudaGraphLaunch", at=60, dur=2)
    t.launch("after", at=120, runs=(130, 140))
    got = values(analyzed(t, tmp_path))["kernel_launches"]
    assert (got.value, got.at, got.samples) == (3, "ProfilerStep#2", (1, 3))


def test_a_driver_call_inside_a_runtime_launch_is_the_same_launch(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=5, runs=(20, 40), call_dur=10)
    t.event("cuLaunchKernel", "cuda_driver", 7, 3, correlation=77)
    assert values(analyzed(t, tmp_path))["kernel_launches"].value == 1


def test_a_call_of_unknown_name_that_started_a_kernel_is_a_launch(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=5, runs=(20, 40), call="INVALID")
    t.launch("Memcpy DtoD (Device -> Device)", 9, (41, 42), cat="gpu_memcpy", call="INVALID")
    assert values(analyzed(t, tmp_path))["kernel_launches"].value == 1


def test_an_item_call_leaves_three_events_and_is_one_sync_of_its_outermost_op(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        t.launch("a", at=1, runs=(5, 30))
        t.op("aten::item", at=10, dur=30)
        t.op("aten::_local_scalar_dense", at=11, dur=28)
        t.launch("Memcpy DtoH (Device -> Pageable)", 12, (31, 33), cat="gpu_memcpy",
                 call="cudaMemcpyAsync", bytes=4)  # fmt: skip
        t.runtime("cudaStreamSynchronize", at=15, dur=20)
    t.runtime("cudaDeviceSynchronize", at=110, dur=50)  # the profiler's, after the last step
    result = analyzed(t, tmp_path)
    got = values(result)
    assert got["host_syncs"].value == 1
    assert got["sync_time"].value == 20
    assert got["device_to_host"].value == 4
    (sync,) = result.syncs
    assert (sync.op, sync.inner_op) == ("aten::item", "aten::_local_scalar_dense")
    assert (sync.count, sync.blocked) == (1, 20_000)


def test_without_steps_the_profilers_closing_synchronize_is_not_counted(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=1, runs=(5, 30))
    t.runtime("cudaDeviceSynchronize", at=10, dur=20)  # the user's own
    t.runtime("cudaDeviceSynchronize", at=110, dur=50)
    got = values(analyzed(t, tmp_path))["host_syncs"]
    assert got.value == 1
    assert "no ProfilerStep" in got.source


def test_a_blocking_copy_that_is_followed_by_its_own_synchronize_waits_once(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=1, runs=(5, 30))
    t.op("aten::copy_", at=10, dur=30)
    t.runtime("hipMemcpyWithStream", at=12, dur=5)
    t.runtime("hipStreamSynchronize", at=20, dur=5)
    t.op("aten::copy_", at=50, dur=30)
    t.runtime("hipMemcpyWithStream", at=52, dur=5)
    t.runtime("hipEventRecord", at=90, dur=1)
    assert values(analyzed(t, tmp_path))["host_syncs"].value == 2


def test_copied_bytes_count_to_the_step_that_launched_the_copy(tmp_path: Path) -> None:
    t = KinetoTrace()
    for i in (0, 1):
        with t.step(i, at=50 * i, dur=50):
            t.launch("k", at=50 * i + 1, runs=(50 * i + 10, 50 * i + 20))
    copy = {"cat": "gpu_memcpy", "call": "cudaMemcpyAsync"}
    t.launch("Memcpy HtoD (Pinned -> Device)", 5, (65, 75), bytes=10_000, **copy)
    t.launch("Memcpy HtoD (Pageable -> Device)", 60, (80, 90), bytes=300, **copy)
    t.launch("CopyHostToDevice", 61, (91, 92), bytes=5, **copy)
    result = analyzed(t, tmp_path)
    assert values(result)["host_to_device"].samples == (10_000, 305)
    pinned = result.copies[0]
    assert (pinned.direction, pinned.memory, pinned.bytes) == ("HtoD", "pinned", 10_000)
    assert pinned.gb_s == pytest.approx(1.0)  # 10,000 bytes in 10 µs


def test_a_copy_without_a_byte_count_makes_the_sum_absent(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("Memcpy HtoD (Host -> Device)", 5, (65, 75), cat="gpu_memcpy", call="hipMemcpyAsync")
    got = values(analyzed(t, tmp_path))["host_to_device"]
    assert got.absent_reason == "the trace gives no byte count for some copies"


def test_copies_of_the_old_category_give_no_bytes_and_the_reason(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    t.launch("Memcpy HtoD (Pageable -> Device)", 5, (25, 30), cat="Memcpy", bytes=4)
    reason = values(analyzed(t, tmp_path))["host_to_device"].absent_reason or ""
    assert "profilers of 2021" in reason


@pytest.mark.parametrize(
    ("name", "way", "memory"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "DtoH", "pageable"),
        ("CopyDeviceToHost", "DtoH", ""),
        ("Memcpy PtoP (Device -> Device)", "PtoP", ""),
        ("Memset (Device)", "set", ""),
        ("something else", "", ""),
    ],
)
def test_direction_and_memory_come_from_the_name(name: str, way: str, memory: str) -> None:
    assert (direction(name), host_memory(name)) == (way, memory)


def test_launch_latency_is_of_launches_onto_an_idle_device_only(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("first", at=0, runs=(8, 50))  # idle device: 8
    t.launch("queued", at=10, runs=(50, 60))  # busy device: it waited, which is no latency
    t.launch("third", at=90, runs=(96, 100))  # idle: 6
    t.launch("behind", at=91, runs=(100, 110))  # the third was waiting before it
    got = values(analyzed(t, tmp_path))["launch_latency"]
    assert (got.value, got.n) == (7, 2)


def test_a_graph_of_many_kernels_is_one_launch_in_the_queue(tmp_path: Path) -> None:
    t = KinetoTrace()
    correlation = t.launch("node0", at=0, runs=(10, 20), call="cudaGraphLaunch")
    for i in range(1, 5):
        t.event(f"node{i}", "kernel", 10 + 10 * i, 10, pid=0, tid=7, device=0, stream=7,
                correlation=correlation)  # fmt: skip
    result = analyzed(t, tmp_path)
    assert values(result)["kernel_launches"].value == 1
    assert result.queue is not None
    assert result.queue.depth.tolist() == [1, 0]
    assert values(result)["launch_latency"].value == 10
    assert values(result)["queue_empty"].value == 1.0


def test_the_queue_is_what_was_launched_and_has_not_started(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 30))
    t.launch("b", at=5, runs=(30, 40))
    t.launch("c", at=20, runs=(40, 110))
    result = analyzed(t, tmp_path)
    frame = result.queue_frame()
    assert frame["at_us"].tolist() == [0, 5, 10, 20, 30, 40]
    assert frame["depth"].tolist() == [1, 2, 1, 2, 1, 0]
    assert values(result)["queue_empty"].value == pytest.approx(0.7)  # [40, 110) of [10, 110)


def test_the_longest_time_between_launches_names_what_filled_it(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 30))
    t.op("aten::nonzero", at=10, dur=60)
    t.op("aten::empty", at=12, dur=2)
    t.launch("b", at=80, runs=(90, 95))
    gap = analyzed(t, tmp_path).gaps[0]
    assert (gap.start, gap.end, gap.ops) == (2_000, 80_000, 2)
    assert gap.cpu_ops == (("aten::nonzero", 60_000),)


def test_data_loading_is_the_time_in_its_spans_and_absent_without_any(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        t.event("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                "user_annotation", 0, 30)  # fmt: skip
        t.launch("a", at=40, runs=(50, 60))
    result = analyzed(t, tmp_path)
    assert values(result)["dataloader_time"].value == 30
    assert result.delays[0].kind == "data loading"
    bare = KinetoTrace()
    bare.launch("a", at=40, runs=(50, 60))
    got = values(analyzed(bare, tmp_path))["dataloader_time"]
    assert got.absent_reason == "the trace has no enumerate(DataLoader) span"


def test_without_runtime_calls_counts_are_absent_with_the_reason(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=40, runs=(50, 60), recorded=False)
    got = values(analyzed(t, tmp_path))
    for name in ("kernel_launches", "host_syncs", "sync_time"):
        assert got[name].absent_reason == "the trace has no runtime or driver calls"
    assert got["queue_empty"].absent_reason == "no activity has a launch record"


def test_launches_for_another_device_are_not_this_ones(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20), device=0)
    t.launch("b", at=5, runs=(10, 20), device=1)
    t.launch("b", at=8, runs=(20, 30), device=1)
    trace = read_trace(t.write(tmp_path / "trace.json"))
    counts = [values(host.analyze(trace, CONFIG, d))["kernel_launches"].value for d in (0, 1)]
    assert counts == [1, 2]


def test_on_the_cpu_the_analogues_are_counted(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    with t.step(1, at=0, dur=100):
        t.op("aten::mm", at=0, dur=10)
        t.op("aten::item", at=20, dur=10)
        t.op("aten::_local_scalar_dense", at=21, dur=5)
        t.op("aten::copy_", at=40, dur=10, dims=[[64, 32], [64, 32], []],
             dtypes=["float", "c10::BFloat16", "Scalar"])  # fmt: skip
        t.op("aten::copy_", at=60, dur=10, dims=[[10], [10], []],
             dtypes=["long int", "int", "Scalar"])  # fmt: skip
    got = values(analyzed(t, tmp_path, "cpu"))
    assert got["kernel_launches"].value == 5
    assert "CPU ops" in got["kernel_launches"].source
    assert got["host_syncs"].value == 1
    assert got["host_to_device"].value == 64 * 32 * 4 + 10 * 8
    assert got["device_to_host"].absent_reason == "nothing is launched on the CPU"
    assert got["launch_latency"].absent_reason == "nothing is launched on the CPU"


def test_on_the_cpu_copies_without_shapes_are_absent_with_the_mend(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::copy_", at=40, dur=10)
    got = values(analyzed(t, tmp_path, "cpu"))["host_to_device"]
    assert got.absent_reason is not None
    assert "record_shapes=True" in got.absent_reason


def test_every_metric_that_is_yielded_is_in_the_table(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    assert set(values(analyzed(t, tmp_path))) <= set(CONFIG.metrics)
