"""The paragraph: for each trace a cause known by construction, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from gpuperf_analyzers.analysis import Analysis, analyze
from gpuperf_analyzers.hookspecs import hookimpl
from gpuperf_analyzers.registry import load_config, plugin_manager
from gpuperf_analyzers.summary import Summary
from gpuperf_analyzers.thresholds import Thresholds, threshold_rows, thresholds_markdown
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace

HALF_FULL = {"est. achieved occupancy %": 50, "blocks per SM": 8.0}
ONE_THREAD = {"est. achieved occupancy %": 0, "blocks per SM": 1 / 132, "block": [1, 1, 1]}
NCCL = "ncclDevKernel_AllReduce_Sum_f32"


def analyzed(t: KinetoTrace, tmp_path: Path) -> Analysis:
    return analyze(read_trace(t.write(tmp_path / "t.json")))


def busy(t: KinetoTrace, at: int, length: int, **geometry: object) -> None:
    """Compute without a gap, made of kernels of many names."""
    for i in range(10):
        runs = (at + i * length / 10, at + (i + 1) * length / 10)
        t.launch(f"kernel_{i}", at, runs, call_dur=0, **(geometry or HALF_FULL))


def no_cause(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 700)
        t.launch(NCCL, at=1, runs=(700, 790), call_dur=0, stream=9)
        t.launch("Memcpy HtoD (Pinned -> Device)", 2, (790, 830), cat="gpu_memcpy", call_dur=0)
        t.launch("kernel_0", at=970, runs=(970, 1000), call_dur=0, **HALF_FULL)  # 140 host-bound


def compute(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 1000)


def one_kernel(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 500)
        t.launch("the_hot_kernel", 1, (500, 1000), call_dur=0, **HALF_FULL)


def data(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 600)
        t.event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 610, 300)
        t.launch("kernel_0", at=920, runs=(925, 1000), **HALF_FULL)


def launching(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        for i in range(20):
            t.op("aten::add", at=i * 50, dur=45)
            t.launch("tiny", at=i * 50 + 40, runs=(i * 50 + 45, i * 50 + 49), **HALF_FULL)


def syncing(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        for i in range(5):
            begin = i * 200
            t.launch("kernel_0", at=begin, runs=(begin + 2, begin + 100), **HALF_FULL)
            t.op("aten::item", at=begin + 10, dur=95)
            t.runtime("cudaStreamSynchronize", at=begin + 12, dur=92)


def python(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        for i in range(10):
            t.op("aten::mm", at=i * 100, dur=10)
            t.launch("kernel_0", at=i * 100 + 5, runs=(i * 100 + 10, i * 100 + 50), **HALF_FULL)


def compiling(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 300)
        for i in range(3):
            t.event("_compile.compile_inner (dynamo_timed)", "cpu_op", 310 + 200 * i, 180)
            t.launch("kernel_0", 495 + 200 * i, (496 + 200 * i, 505 + 200 * i), **HALF_FULL)


def collecting(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 300)
        for i in range(3):
            t.event("Python GC", "user_annotation", 310 + 200 * i, 180)
            t.launch("kernel_0", 495 + 200 * i, (496 + 200 * i, 505 + 200 * i), **HALF_FULL)


def one_gap(t: KinetoTrace) -> None:
    busy(t, 0, 200)
    t.op("aten::conv2d", at=200, dur=700)
    t.launch("first_conv", at=890, runs=(895, 1000), **HALF_FULL)


def late_start(t: KinetoTrace) -> None:
    busy(t, 0, 200)
    t.launch("waited", at=210, runs=(895, 1000), call_dur=5, **HALF_FULL)


def exposed(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 600)
        t.launch(NCCL, at=1, runs=(600, 1000), call_dur=0, stream=9)


def hidden(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 1000)
        t.launch(NCCL, at=1, runs=(100, 900), call_dur=0, stream=9)


def copying(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 700)
        t.launch(
            "Memcpy HtoD (Pageable -> Device)", at=1, runs=(700, 1000), cat="gpu_memcpy",
            call="cudaMemcpyAsync", call_dur=0, bytes=2**20,
        )  # fmt: skip


def depending(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 600)
        t.launch("kernel_0", at=1, runs=(900, 1000), call_dur=0, **HALF_FULL)


def unlinked(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 600)
        t.launch("kernel_0", at=1, runs=(900, 1000), recorded=False, **HALF_FULL)


def one_thread(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        t.launch("spin", at=0, runs=(0, 1000), call_dur=0, **ONE_THREAD)


def simt(t: KinetoTrace) -> None:
    with t.step(1, at=0, dur=1000):
        busy(t, 0, 500)
        t.launch("ampere_sgemm_128x128_tn", at=1, runs=(500, 1000), call_dur=0, **HALF_FULL)


def slow_step(t: KinetoTrace) -> None:
    at = 0
    for number, length in enumerate((100, 100, 100, 180, 100)):
        with t.step(number, at=at, dur=length):
            busy(t, at, length)
        at += length


BUILT: dict[str, tuple[Callable[[KinetoTrace], None], str, list[str]]] = {
    "nothing stands out": (no_cause, "no-clear-cause", ["No clear cause", "compute 73%"]),
    "compute, spread": (compute, "compute-bound", ["computes for 100%", "spread over many"]),
    "one kernel": (one_kernel, "compute-bound", ["50% of that is the kernel the_hot_kernel"]),
    "waiting for data": (data, "data-loading", ["waits 32%", "loads the next batch"]),
    "many small launches": (launching, "launch-bound", ["a launch every 47.8 µs", "aten::add"]),
    "synchronizations": (syncing, "synchronization", ["cudaStreamSynchronize in aten::item"]),
    "Python between ops": (python, "between-ops", ["in Python"]),
    "compilation": (compiling, "compilation", ["it compiles"]),
    "garbage collection": (collecting, "garbage-collection", ["collects garbage"]),
    "one gap": (one_gap, "one-gap", ["695 µs before first_conv", "the host is in aten::conv2d"]),
    "one gap after a launch": (late_start, "one-gap", ["stands idle for 70%", "did not start"]),
    "exposed communication": (exposed, "exposed-communication", ["40% of the step", "none of it"]),
    "hidden communication": (hidden, "compute-bound", ["computes for 100%"]),
    "pageable copies": (copying, "exposed-copies", ["30% of the step", "pin that memory"]),
    "another stream": (depending, "dependency", ["30% of the step", "another stream"]),
    "no launch record": (unlinked, "unknown-idle", ["the trace does not say why"]),
    "one thread in a loop": (one_thread, "compute-bound", ["is not full", "0% estimated"]),
    "off the tensor cores": (simt, "compute-bound", ["none of it on tensor cores"]),
    "a slow step": (slow_step, "compute-bound", ["Step 3 takes 180 µs, 80% longer"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT)
def test_a_built_trace_has_the_cause_that_was_built_into_it(name: str, tmp_path: Path) -> None:
    build, cause, words = BUILT[name]
    t = KinetoTrace()
    build(t)
    found = analyzed(t, tmp_path).summary
    assert found.cause == cause, found.text
    for text in words:
        assert text in found.text
    codes = {s.code for s in found.sentences}
    assert ("not-filled" in codes) == (name == "one thread in a loop")
    assert ("off-tensor-cores" in codes) == (name == "off the tensor cores")
    assert ("slow-steps" in codes) == (name == "a slow step")
    assert all(s.evidence for s in found.sentences)


def test_a_chip_is_not_called_unfilled_for_the_time_it_communicates(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=1000):
        t.launch("small", at=0, runs=(0, 100), call_dur=0, **ONE_THREAD)
        t.launch(NCCL, at=1, runs=(100, 1000), call_dur=0, stream=9)
    codes = [s.code for s in analyzed(t, tmp_path).summary.sentences]
    assert codes == ["exposed-communication"]


GIVEN = {
    "hta-ns-resolution-trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": "compute-bound",
    "hta-cpu-only/full.rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz": "exposed-communication",
    "hta-trace-diff/control.json.gz": "exposed-communication",
    "hta-trace-diff/test.json.gz": "exposed-copies",
    "hta-nccl-parser-config/nccl_data.json.gz": "launch-bound",
    "kineto-tb-resnet50-num-workers-0/worker0.1623143089861.pt.trace.json.gz": "data-loading",
    "kineto-tb-resnet50-num-workers-0/20210223.worker0.pt.trace.json.gz": "data-loading",
    "tracelens-b300-moe-micro/moe_05_large_capacity.json.gz": "compute-bound",
    "tracelens-b300-moe-micro/moe_01_many_experts_few_tokens.json.gz": "launch-bound",
    "hta-critical-path-alexnet/benchmark_result_2869224_1695835535_trace.json.gz": "one-gap",
    "tracelens-torch-compile-triton/trace.json.gz": "compute-bound",
    "tracelens-h100/google_owlv2-large-patch14-ensemble__1016001.json.gz": "data-loading",
    "param-dlrm-kineto/worker1_step_12.1694128201556.pt.trace.json.gz": "exposed-communication",
    "param-dlrm-kineto/worker7_step_12.1694128201553.pt.trace.json.gz": "launch-bound",
    "derived-broken/truncated_gzip.json.gz": "nothing-to-analyze",
    "hta-mtia-inference-trace/mtia_inference_rank_0.json.gz": "nothing-to-analyze",
}
"""By what expected.json says: the largest of compute, exposed, idle; by the ops for the rest."""


@pytest.mark.parametrize("name", GIVEN)
def test_a_given_trace_opens_with_its_cause(name: str, shared_traces: Path) -> None:
    found = analyze(read_trace(shared_traces / name)).summary
    assert found.cause == GIVEN[name], found.text


def test_every_given_trace_opens_with_a_sentence(
    shared_traces: Path, expected: dict[str, dict[str, object]]
) -> None:
    for name in sorted(expected):
        if "error" in expected[name]:
            continue
        text = analyze(read_trace(shared_traces / name)).summary.text
        assert text.endswith("."), name
        assert "  " not in text, name
        assert ".." not in text.replace("…", ""), name


def test_stacks_that_slow_the_host_are_said_and_do_not_hide_the_cause(tmp_path: Path) -> None:
    t = KinetoTrace()
    data(t)
    t.event("train.py(12): step", "python_function", 0, 900)
    found = analyzed(t, tmp_path).summary
    assert [s.code for s in found.sentences] == ["data-loading", "stack-recording"]


def test_a_value_that_must_not_be_judged_is_in_no_sentence(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        busy(t, 0, 100)
    with t.step(2, at=100, dur=100):
        pass  # no activity: the times of steps are invalid
    found = analyzed(t, tmp_path).summary
    assert found.cause == "nothing-to-analyze"
    assert "step-without-gpu-events" in found.text


def test_on_a_cpu_nothing_waits_for_a_host(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    with t.step(1, at=0, dur=100):
        t.op("aten::mm", at=0, dur=60)
        t.op("aten::add", at=95, dur=5)
    found = analyzed(t, tmp_path).summary
    assert found.cause == "between-ops"
    assert found.text.startswith("No op runs for 35% of the step")


def test_evidence_is_what_the_sentence_says_and_part_of_the_json(tmp_path: Path) -> None:
    t = KinetoTrace()
    data(t)
    analysis = analyzed(t, tmp_path)
    document = analysis.to_json()["summary"]
    assert document["cause"] == "data-loading"
    assert document["text"] == analysis.summary.text
    evidence = {e["name"]: e["value"] for e in document["sentences"][0]["evidence"]}
    # Idle from 600 to 925; the loader's span covers 610 to 910 of it.
    assert evidence["waiting for the CPU / step"] == pytest.approx(0.325)
    assert evidence["data-loading"] == pytest.approx(0.3)
    assert evidence["dataloader_time"] == pytest.approx(300.0)


def test_thresholds_can_be_changed(tmp_path: Path) -> None:
    t = KinetoTrace()
    no_cause(t)
    trace = read_trace(t.write(tmp_path / "t.json"))
    config = load_config()

    def summary(**changed: float) -> Summary:
        return analyze(trace, replace(config, thresholds=Thresholds(**changed))).summary

    assert summary().cause == "no-clear-cause"
    assert summary(host_wait=0.10).cause == "one-gap"
    assert summary(exposed_comm=0.08).cause == "exposed-communication"
    assert summary(compute_bound=0.7).cause == "compute-bound"


def test_a_threshold_is_a_number_from_0_on() -> None:
    with pytest.raises(ValueError, match="host_wait"):
        Thresholds(host_wait=-0.1)
    with pytest.raises(ValueError, match="slow_step"):
        Thresholds(slow_step=float("nan"))


def test_every_threshold_says_what_it_decides_and_why_it_is_so() -> None:
    rows = threshold_rows()
    assert [name for name, *_ in rows] == [f.name for f in fields(Thresholds)]
    assert all(says and why for _, _, says, why in rows)


def test_the_table_of_thresholds_in_the_documentation_is_up_to_date() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "summary.md"
    table = page.read_text().partition("<!-- thresholds -->\n")[2].partition("<!-- end -->")[0]
    assert table == thresholds_markdown()


def test_every_code_of_a_sentence_is_in_the_documentation() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "summary.md"
    text = page.read_text()
    for _, cause, _ in BUILT.values():
        assert f"`{cause}`" in text or cause == "no-clear-cause"


class _Changed:
    """A plugin with thresholds of its own."""

    def __init__(self, **changes: float) -> None:
        self.changes = changes

    @hookimpl
    def gpuperf_thresholds(self) -> dict[str, float]:
        return self.changes


def test_a_plugin_changes_thresholds_and_the_later_one_wins() -> None:
    manager = plugin_manager(_Changed(host_wait=0.3, straggler=0.2), _Changed(host_wait=0.4))
    assert load_config(manager).thresholds == Thresholds(host_wait=0.4, straggler=0.2)


def test_a_threshold_that_there_is_not_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="no threshold host_weight"):
        load_config(plugin_manager(_Changed(host_weight=0.3)))
