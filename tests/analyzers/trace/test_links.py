"""Launch calls and enclosing ops, against a brute-force search and by hand. Times in µs."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuperf_analyzers.trace import Category, Trace, read_trace
from gpuperf_analyzers.trace.links import enclosing, launches, launching_ops, nesting
from kineto import KinetoTrace


def read(trace: KinetoTrace, folder: Path) -> Trace:
    return read_trace(trace.write(folder / "trace.json"))


def named(trace: Trace, rows) -> list[str]:
    return ["" if r < 0 else trace.name_of(int(r)) for r in rows]


def row(trace: Trace, name: str) -> int:
    return next(i for i in range(len(trace.events)) if trace.name_of(i) == name)


def test_a_kernel_is_linked_to_the_call_the_op_and_the_outermost_op(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("aten::linear", at=0, dur=20)
    t.op("aten::addmm", at=2, dur=10)
    t.launch("gemm", at=5, runs=(30, 40))
    trace = read(t, tmp_path)
    gemm = row(trace, "gemm")
    assert trace.name_of(int(launches(trace)[gemm])) == "cudaLaunchKernel"
    assert named(trace, launching_ops(trace)[[gemm]]) == ["aten::addmm"]
    assert named(trace, launching_ops(trace, outermost=True)[[gemm]]) == ["aten::linear"]


def test_an_op_of_another_thread_encloses_nothing_here(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("elsewhere", at=0, dur=50, tid=300)
    t.launch("gemm", at=5, runs=(30, 40))
    trace = read(t, tmp_path)
    assert launching_ops(trace)[row(trace, "gemm")] == -1


def test_an_op_that_ends_as_another_begins_is_not_around_it(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("before", at=0, dur=10)
    t.op("after", at=10, dur=10)
    t.op("inside", at=10, dur=10)  # as long as the one around it, and later in the file
    trace = read(t, tmp_path)
    rows = [row(trace, n) for n in ("before", "after", "inside")]
    assert named(trace, enclosing(trace, rows)) == ["", "", "after"]


def test_an_op_without_length_encloses_nothing_and_can_be_enclosed(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("outer", at=0, dur=10)
    t.op("empty", at=5, dur=0)
    t.op("next", at=5, dur=2)
    trace = read(t, tmp_path)
    assert named(trace, enclosing(trace, [row(trace, "empty"), row(trace, "next")])) == [
        "next", "outer",
    ]  # fmt: skip


def test_a_span_that_overlaps_without_nesting_does_not_hide_the_one_around(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("outer", at=0, dur=100)
    t.op("a", at=10, dur=20)
    t.op("crossing", at=20, dur=20)  # ends after a, inside of outer
    t.launch("gemm", at=50, runs=(60, 70))
    trace = read(t, tmp_path)
    assert named(trace, launching_ops(trace)[[row(trace, "gemm")]]) == ["outer"]


def test_a_kernel_without_a_call_is_linked_by_external_id_where_that_is_not_the_correlation(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    t.op("aten::linear", at=0, dur=20, **{"External id": 900})
    t.op("aten::addmm", at=2, dur=10, **{"External id": 901})
    t.launch("gemm", at=5, runs=(30, 40), recorded=False, **{"External id": 901})
    t.op("aten::wrong", at=50, dur=5, **{"External id": 2})
    t.launch("old", at=5, runs=(60, 70), recorded=False, **{"External id": 2})
    trace = read(t, tmp_path)
    gemm, old = row(trace, "gemm"), row(trace, "old")
    assert named(trace, launching_ops(trace)[[gemm, old]]) == ["aten::addmm", ""]
    assert named(trace, launching_ops(trace, outermost=True)[[gemm]]) == ["aten::linear"]


def test_a_correlation_id_used_by_two_processes_means_the_last_call_before_the_start(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    for pid, at in ((1, 0), (2, 50)):
        t.event("cudaLaunchKernel", "cuda_runtime", at, 2, pid=pid, tid=pid, correlation=5)
    for at in (10, 60):
        t.event("gemm", "kernel", at, 5, pid=0, tid=7, device=0, stream=7, correlation=5)
    trace = read(t, tmp_path)
    starts = trace.events.ts[launches(trace)[trace.rows(Category.KERNEL)]]
    assert starts.tolist() == [0, 50_000]


def test_times_far_out_do_not_break_nesting(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("outer", at=0, dur=20)
    t.op("inner", at=5, dur=5)
    t.op("far", at=9_000_000_000_000, dur=4_000_000_000, tid=7)
    trace = read(t, tmp_path)
    assert named(trace, enclosing(trace, [row(trace, "inner"), row(trace, "far")])) == ["outer", ""]


def tree(children, start: int, end: int, tid: int, out: list[tuple[int, int, int]]) -> None:
    """Spans that nest: each child takes a slice of its parent."""
    if end <= start:
        return
    out.append((start, end, tid))
    width = (end - start) // max(len(children), 1)
    for i, child in enumerate(children):
        tree(child, start + i * width, start + (i + 1) * width, tid, out)


forests = st.lists(
    st.recursive(st.just([]), lambda c: st.lists(c, min_size=1, max_size=3), max_leaves=8),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(forests, st.lists(st.tuples(st.integers(0, 70), st.integers(0, 2)), max_size=8))
def test_the_innermost_op_is_the_shortest_open_one_on_the_thread(
    tmp_path: Path, forest, points
) -> None:
    spans: list[tuple[int, int, int]] = []
    for tid, shape in enumerate(forest):
        tree(shape, 0, 64, tid, spans)
    t = KinetoTrace()
    for i, (start, end, tid) in enumerate(spans):
        t.op(f"op{i}", at=start, dur=end - start, tid=tid)
    for at, tid in points:
        t.runtime("cudaEventQuery", at=at, dur=1, tid=tid)
    trace = read(t, tmp_path)
    calls = trace.rows(Category.RUNTIME)
    for call, around in zip(calls.tolist(), enclosing(trace, calls).tolist(), strict=True):
        at, tid = trace.events.ts[call] // 1000, trace.tracks[trace.events.track[call]][1]
        open_ = [(e - s) for s, e, other in spans if other == tid and s <= at < e]
        length = trace.events.dur[around] // 1000 if around >= 0 else None
        assert length == (min(open_) if open_ else None)
    nest = nesting(trace)
    inner = nest.parent >= 0
    assert (nest.start[nest.parent[inner]] <= nest.start[inner]).all()
    assert (nest.end[nest.parent[inner]] >= nest.end[inner]).all()
    assert (nest.depth[nest.parent[inner]] == nest.depth[inner] - 1).all()
    assert (nest.parent[nest.root] == -1).all()
