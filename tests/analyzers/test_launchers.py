"""Graphs, Triton kernels and launch-bound ops against hand-drawn timelines and real traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import launchers, load_config, read_trace
from gpuperf_analyzers.launchers import CompiledKernel, GraphLaunch, LaunchersResult, OpLaunching
from gpuperf_analyzers.trace.classify import Device, devices
from kineto import MAIN, KinetoTrace


def analyzed(path: Path, device: Device | None = None) -> LaunchersResult:
    trace = read_trace(path)
    return launchers.analyze(trace, load_config(), devices(trace)[0] if device is None else device)


def value(result: LaunchersResult) -> float | str | None:
    (found,) = result.metrics()
    return found.absent_reason if found.value is None else found.value


def graph_kernel(t: KinetoTrace, name: str, call: int, at: float, end: float) -> None:
    t.event(
        name, "kernel", at, end - at, pid=0, tid=7, device=0, stream=7, correlation=call
    )  # one launch call starts every kernel of its graph


def test_the_kernels_of_a_graph_belong_to_where_it_was_launched(tmp_path: Path) -> None:
    t = KinetoTrace()
    for replay in range(2):
        at = 1000 * replay
        t.event("decode", "user_annotation", at, 100)
        t.event("torch/cuda/graphs.py(139): replay", "python_function", at + 5, 90)
        call = t.launch(
            "a", at=at + 10, runs=(at + 40, at + 50), call="cudaGraphLaunch", call_dur=7
        )
        graph_kernel(t, "b", call, at + 45, at + 70)  # beside a for 5 µs
    t.launch("c", at=500, runs=(510, 515))
    result = analyzed(t.write(tmp_path / "t.json"))
    (graph,) = result.graphs
    assert graph == GraphLaunch(
        call="cudaGraphLaunch",
        op="",
        annotation="decode",
        function="torch/cuda/graphs.py(139): replay",
        launches=2,
        kernels=4,
        host_us=14.0,
        busy_us=60.0,
        share=70 / 75,
    )
    assert result.graphs_frame()["busy_us"].tolist() == [60.0]


def test_graphs_of_two_ops_are_two_places(tmp_path: Path) -> None:
    t = KinetoTrace()
    for at, op in ((0, "CompiledFunction"), (100, "CompiledFunctionBackward")):
        t.op(op, at=at, dur=50)
        t.launch(op, at=at + 5, runs=(at + 20, at + 30 + at / 10), call="cudaGraphLaunch")
    result = analyzed(t.write(tmp_path / "t.json"))
    assert [(g.op, g.busy_us) for g in result.graphs] == [
        ("CompiledFunctionBackward", 20.0),
        ("CompiledFunction", 10.0),
    ]


@pytest.mark.parametrize(
    ("name", "kind", "fused"),
    [
        ("triton_poi_fused_add_mul_0", "pointwise", "add_mul"),
        ("triton_red_fused__softmax_12", "reduction", "softmax"),
        ("triton_per_fused_native_layer_norm_3", "persistent reduction", "native_layer_norm"),
        ("triton_poi_fused_0", "pointwise", ""),
        ("triton_tem_fused_mm_7", "template", "mm"),
        ("triton_mine", "", ""),
    ],
)
def test_a_triton_kernels_name_tells_what_it_joins(
    name: str, kind: str, fused: str, tmp_path: Path
) -> None:
    t = KinetoTrace()
    t.event("forward", "user_annotation", 0, 50)
    t.op("Torch-Compiled Region: 0/0", at=0, dur=50)
    t.op(name, at=10, dur=10, stream=0, grid="(4, 1, 1)")
    t.launch(name, at=12, runs=(20, 26))
    t.launch(name, at=14, runs=(30, 34))
    (kernel,) = analyzed(t.write(tmp_path / "t.json")).compiled
    assert kernel == CompiledKernel(
        name, kind, fused, "Torch-Compiled Region: 0/0", "forward", 2, 10.0, 5.0
    )


def test_a_triton_kernel_inside_a_graph_belongs_to_the_graphs_launch(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("triton_poi_fused_add_0", at=0, runs=(10, 20), call="cudaGraphLaunch")
    (kernel,) = analyzed(t.write(tmp_path / "t.json")).compiled
    assert kernel.region == "cudaGraphLaunch"


def test_an_op_that_takes_the_host_longer_than_the_device_is_launch_bound(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("aten::linear", at=0, dur=20)
    t.op("aten::addmm", at=2, dur=16)
    t.launch("gemm", at=5, runs=(30, 130))
    t.op("aten::add", at=30, dur=12)
    t.launch("add", at=32, runs=(130, 134))
    t.op("aten::add", at=50, dur=8)
    t.launch("add", at=52, runs=(134, 154))
    result = analyzed(t.write(tmp_path / "t.json"))
    linear, add = (
        OpLaunching("aten::linear", 1, 1, 20.0, 100.0, 0),
        OpLaunching("aten::add", 2, 2, 20.0, 24.0, 1),
    )
    assert result.ops == (add, linear)  # by how much the host is ahead
    assert not add.launch_bound
    assert value(result) == 4 / 124


def test_waiting_for_the_device_is_not_launching(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("aten::item", at=0, dur=100)
    t.launch("copy", at=2, runs=(10, 20))
    t.runtime("cudaStreamSynchronize", at=5, dur=92)
    (op,) = analyzed(t.write(tmp_path / "t.json")).ops
    assert (op.host_us, op.busy_us, op.launch_bound) == (8.0, 10.0, False)


def test_without_links_the_value_is_absent_with_the_reason(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("lost", at=0, runs=(10, 20), recorded=False)
    assert value(analyzed(t.write(tmp_path / "t.json"))) == "no kernel is linked to a CPU op"


def test_a_cpu_launches_nothing(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    t.event("aten::mm", "cpu_op", 0, 10, pid=MAIN)
    result = analyzed(t.write(tmp_path / "t.json"))
    assert (result.graphs, result.compiled, result.ops) == ((), (), ())
    assert value(result) == "nothing is launched on the CPU"


def test_every_graph_kernel_of_a_real_training_step_has_its_compiled_function(
    shared_traces: Path,
) -> None:
    result = analyzed(shared_traces / "hta-trace-diff/test.json.gz")
    # Six steps, a graph forward and one backward in each.
    assert [g.launches for g in result.graphs] == [6, 6]
    assert {g.op for g in result.graphs} == {
        "CompiledFunction",
        "autograd::engine::evaluate_function: CompiledFunctionBackward",
    }


def test_a_decode_step_is_one_graph_under_its_annotation(shared_traces: Path) -> None:
    file = "tracelens-inference-vllm-decode-full/graph_execution.json.gz"
    result = analyzed(shared_traces / file)
    (graph,) = result.graphs
    assert (graph.call, graph.launches, graph.kernels) == ("hipGraphLaunch", 1, 421)
    assert graph.annotation.startswith("execute_32_context_0")
    assert sum(k.count for k in result.compiled) == 48
    assert {k.region for k in result.compiled} == {"hipGraphLaunch"}


def test_the_triton_kernels_of_a_compiled_layer_have_their_region(shared_traces: Path) -> None:
    result = analyzed(shared_traces / "tracelens-torch-compile-triton/trace.json.gz")
    assert [(k.kind, k.fused) for k in result.compiled] == [
        ("pointwise", "unsafe_view_mul_silu"),
        ("pointwise", "unsafe_view_add"),
        ("reduction", "unsafe_view_add_mean_mul_pow_rsqrt"),
        ("reduction", "add_mean_mul_pow_rsqrt"),
    ]
    assert {k.region for k in result.compiled} == {"Torch-Compiled Region: 0/0"}
    assert result.compiled_frame()["count"].sum() == 4
    assert not result.to_frame()["launch_bound"].any()
