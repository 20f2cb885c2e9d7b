"""Before and after: what is matched with what, and parts that add up to the change exactly."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.diff import (
    Change,
    Diff,
    OpRow,
    OpTable,
    Part,
    StepTime,
    diff,
    op_table,
    slow_steps,
)
from gpuperf_analyzers.diff.matching import match
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace import read_trace, read_traces
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def op(path: str, shapes: str = "", us: float | list[float] = 1, **counts: int) -> OpRow:
    """A row of one kernel: ``path`` is ``outer/inner``, ``us`` its time in each step."""
    times = tuple(int(1000 * t) for t in (us if isinstance(us, list) else [us]))
    names = tuple(path.split("/"))
    kernel = Part("compute", f"k_{names[-1]}", counts.get("count", len(times)), 0, times)
    counts = {"calls": len(times), "launches": len(times), "syncs": 0, **counts}
    counts.pop("count", None)
    return OpRow(names, shapes, "", parts=(kernel,), **counts)


def table(*rows: OpRow, idle: float | list[float] = 0, **fields: object) -> OpTable:
    """A table of rows with one cause of idle time; steps are as long as their parts."""
    n = max([len(p.ns) for r in rows for p in r.parts] or [1])
    ns = tuple(int(1000 * t) for t in (idle if isinstance(idle, list) else [idle] * n))
    rest = (Part("idle", "host-bound", 0, 0, ns),)
    parts = [p for r in rows for p in r.parts] + list(rest)
    lengths = [sum(p.ns[i] for p in parts) for i in range(n)]
    steps = tuple(StepTime(f"ProfilerStep#{i + 1}", "", t) for i, t in enumerate(lengths))
    known = {
        "device_name": "NVIDIA H100", "device_type": "cuda", "world_size": None, "ranks": (),
        "stepped": True, "shapes_recorded": True, "conditions": {},
    }  # fmt: skip
    return OpTable(steps=steps, rows=rows, idle=rest, **{**known, **fields})  # type: ignore[arg-type]


def only(found: Diff, name: str) -> Change:
    (change,) = [c for c in found.changes if c.name == name]
    return change


def adds_up(found: Diff) -> None:
    zero = Fraction(0)
    assert sum((c.delta for c in found.changes), zero) == found.delta
    assert sum((k.delta for k in found.kinds()), zero) == found.delta
    assert sum((k.delta for k in found.kernels()), zero) == found.delta
    for change in found.changes:
        assert sum((p.delta for p in change.parts), zero) == change.delta
    before = sum(s.ns for s in found.before.steps) / Fraction(len(found.before.steps))
    after = sum(s.ns for s in found.after.steps) / Fraction(len(found.after.steps))
    assert found.delta == after - before


def test_slower_faster_new_and_gone_are_told_and_add_up() -> None:
    before = table(op("mm", "2x2", 100), op("relu", "2x2", 30), op("drop", "", 20), idle=10)
    after = table(op("mm", "2x2", 150), op("relu", "2x2", 25), op("gelu", "", 8), idle=12)
    found = diff(before, after)
    assert {c.name: (c.word, float(c.delta) / 1000) for c in found.changes} == {
        "mm": ("slower", 50.0),
        "drop": ("gone", -20.0),
        "gelu": ("new", 8.0),
        "relu": ("faster", -5.0),
        "host-bound": ("slower", 2.0),
    }
    assert found.changes[0].name == "mm"
    assert found.delta == 35_000
    assert found.relative == pytest.approx(35 / 160)
    assert found.share(found.changes[0].delta) == pytest.approx(50 / 35)
    adds_up(found)


def test_a_later_step_that_is_slow_counts_in_the_mean_and_is_found() -> None:
    before = table(op("mm", "", [10, 10, 10]), op("add", "", [5, 5, 5]))
    after = table(op("mm", "", [10, 25, 40]), op("add", "", [5, 5, 5]))
    found = diff(before, after)
    assert float(only(found, "mm").delta) == 15_000  # (0 + 15 + 30) / 3
    assert only(found, "add").delta == 0
    slow = slow_steps(found)
    assert [(s.name, s.times, s.cause.name, s.cause_us) for s in slow] == [
        ("ProfilerStep#3", 3.0, "mm", 30.0),
        ("ProfilerStep#2", 2.0, "mm", 15.0),
    ]


def test_different_numbers_of_steps_are_compared_by_their_means() -> None:
    found = diff(table(op("mm", "", [10, 20])), table(op("mm", "", [15, 15, 16])))
    assert found.delta == Fraction(46_000, 3) - 15_000
    adds_up(found)


def test_an_op_elsewhere_in_the_call_tree_has_moved() -> None:
    before = table(op("linear/mm", "2x2"), op("block/mm", "4x4"))
    after = table(op("mlp/linear/mm", "2x2"), op("block/mm", "4x4"))
    found = {c.shapes_after: c.how for c in diff(before, after).changes if not c.idle}
    assert found == {("2x2",): "moved", ("4x4",): "same"}


def test_an_op_with_other_shapes_is_still_that_op() -> None:
    before = table(op("linear/mm", "2x2", 5), op("linear/mm", "8x8", 7))
    after = table(op("linear/mm", "2x2", 5), op("linear/mm", "16x16", 9))
    changes = {c.shapes_before: c for c in diff(before, after).changes}
    assert changes["2x2",].how == "same"
    assert (changes["8x8",].how, changes["8x8",].shapes_after) == ("other shapes", ("16x16",))
    assert changes["8x8",].delta == 2000


def test_what_could_be_matched_in_several_ways_is_one_group() -> None:
    before = table(op("mm", "2x2", 5), op("mm", "3x3", 7))
    after = table(op("mm", "4x4", 6), op("mm", "5x5", 9), op("mm", "6x6", 1))
    (change,) = [c for c in diff(before, after).changes if not c.idle]
    assert (change.how, len(change.shapes_before), len(change.shapes_after)) == (
        "other shapes", 2, 3,
    )  # fmt: skip
    assert change.delta == 4000


def test_shapes_on_one_side_only_leave_the_place_to_match_by() -> None:
    before = table(op("linear/mm", "", 9), shapes_recorded=False)
    after = table(op("linear/mm", "2x2", 5), op("linear/mm", "4x4", 6))
    found = diff(before, after)
    (change,) = [c for c in found.changes if not c.idle]
    assert (change.how, change.delta) == ("same", 2000)
    assert any("shapes are recorded after only" in n for n in found.notices)


def test_a_kernel_of_the_same_op_that_was_replaced_is_told() -> None:
    old, new = op("mm", "2x2", 5), op("mm", "2x2", 8)
    part = Part("compute", "other_gemm", 1, 0, new.parts[0].ns)
    new = OpRow(new.path, new.shapes, "", 1, 1, 0, (part,))
    change = only(diff(table(old), table(new)), "mm")
    assert (change.how, change.delta) == ("same", 3000)
    assert {p.name: (p.before is None, p.after is None) for p in change.parts} == {
        "k_mm": (False, True),
        "other_gemm": (True, False),
    }


def test_an_added_wait_is_a_change_though_no_time_changed() -> None:
    found = diff(table(op("item", syncs=0)), table(op("item", syncs=1)))
    assert found.delta == 0
    assert not found.empty
    assert only(found, "item").after is not None
    assert only(found, "item").after.syncs == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"device_name": "Tesla V100"}, "other hardware: NVIDIA H100 before, Tesla V100 after"),
        ({"device_name": "cpu", "device_type": "cpu"}, "a cuda run before, a cpu run after"),
        ({"world_size": 2, "ranks": (0, 1)}, "other world size: 8 ranks before, 2 after"),
        ({"world_size": 8, "ranks": (3,)}, "after: 1 of 8 ranks read (3)"),
        ({"world_size": 8, "ranks": tuple(range(1, 9))}, "other ranks were read"),
        ({"stepped": False}, "after: no steps are annotated"),
        ({"conditions": {"torch": "2.6"}}, "torch: 2.5 before, 2.6 after"),
    ],
)
def test_what_differs_besides_the_code_is_said(fields: dict[str, object], said: str) -> None:
    known = {"world_size": 8, "ranks": tuple(range(8)), "conditions": {"torch": "2.5"}}
    before = table(op("mm"), **known)
    assert diff(before, before).notices == ()
    notices = diff(before, table(op("mm"), **{**known, **fields})).notices
    assert any(n.startswith(said) for n in notices)


def test_two_jobs_that_share_little_are_told() -> None:
    found = diff(table(op("a", "", 10), op("b", "", 90)), table(op("a", "", 10), op("c", "", 30)))
    assert found.notices == (
        "10% of the time in ops before is in ops that both sides have",
        "25% of the time in ops after is in ops that both sides have",
    )


names = st.sampled_from(["a", "a/b", "c/b", "b", "c"])
shapes = st.sampled_from(["", "2x2", "4x4"])


@st.composite
def tables(draw: st.DrawFn) -> OpTable:
    n = draw(st.integers(1, 4))
    times = st.lists(st.integers(0, 1000), min_size=n, max_size=n)
    keys = draw(st.lists(st.tuples(names, shapes), max_size=6, unique=True))
    rows = [
        op(p, s, [float(t) for t in draw(times)], calls=draw(st.integers(0, 9))) for p, s in keys
    ]
    recorded = draw(st.booleans())
    if not rows:
        n = 1
    idle = [float(t) for t in draw(st.lists(st.integers(0, 1000), min_size=n, max_size=n))]
    return table(*rows, idle=idle, shapes_recorded=recorded)


@given(tables(), tables())
def test_parts_sum_to_the_whole_whatever_the_tables(a: OpTable, b: OpTable) -> None:
    adds_up(diff(a, b))


@given(tables(), tables())
def test_every_row_is_in_one_change_and_backwards_is_the_opposite(a: OpTable, b: OpTable) -> None:
    matched = match(a.rows, b.rows, shapes=a.shapes_recorded and b.shapes_recorded)
    assert sorted(id(r) for m in matched for r in m.before) == sorted(map(id, a.rows))
    assert sorted(id(r) for m in matched for r in m.after) == sorted(map(id, b.rows))
    there, back = diff(a, b), diff(b, a)
    assert there.delta == -back.delta
    assert sorted(c.delta for c in there.changes) == sorted(-c.delta for c in back.changes)


@given(tables())
def test_a_table_with_itself_is_empty(a: OpTable) -> None:
    found = diff(a, a)
    assert found.empty
    assert all(c.delta == 0 for c in found.changes)
    assert found.notices == ()


runs = st.lists(
    st.tuples(st.sampled_from(["gemm", "relu", "ncclAllReduce"]), st.integers(1, 60),
              st.sampled_from([7, 8, 9])),
    min_size=1, max_size=8,
)  # fmt: skip


def traced(raw: list[tuple[str, int, int]], *, shift: float = 0, streams: int = 0) -> KinetoTrace:
    t = KinetoTrace(base_us=5_000_000 + shift)
    for number in range(2):
        at = 500.0 * number
        with t.step(number, at=at, dur=450):
            for i, (name, length, stream) in enumerate(raw):
                t.op(f"aten::{name}", at + 10 * i, 8)
                begin = at + 20 + 25 * i
                t.launch(name, at + 10 * i + 1, (begin, begin + length), stream=stream + streams)
    return t


@settings(max_examples=40, deadline=None)
@given(raw=runs, shift=st.integers(-4_000_000, 10**9), streams=st.integers(-7, 900))
def test_renamed_streams_and_shifted_time_change_nothing(
    raw: list[tuple[str, int, int]],
    shift: int,
    streams: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    config = load_config()
    a = op_table(read_trace(traced(raw).write(folder / "a.json")), config)
    moved = traced(raw, shift=shift, streams=streams).write(folder / "b.json")
    assert diff(a, op_table(read_trace(moved), config)).empty


def test_two_jobs_on_different_hardware_add_up_and_say_so(
    shared_traces: Path, config: Config
) -> None:
    before, after = (
        op_table(read_trace(shared_traces / "hta-trace-diff" / f"{name}.json.gz"), config)
        for name in ("control", "test")
    )
    found = diff(before, after)
    adds_up(found)
    assert found.notices[:2] == (
        "other hardware: NVIDIA A100-PG509-200 before, Tesla V100-SXM2-16GB after",
        "other world size: 8 ranks before, 2 after: the means are over ranks read",
    )
    assert only(found, "CompiledFunctionBackward").word == "new"
    assert diff(before, before).empty
    assert diff(after, after).empty


def test_a_set_of_8_ranks_against_its_first_adds_up(shared_traces: Path, config: Config) -> None:
    folder = shared_traces / "param-dlrm-kineto"
    ranks = op_table(read_traces(str(folder)), config)
    first = op_table(read_trace(next(iter(sorted(folder.glob("worker0*"))))), config)
    found = diff(first, ranks)
    adds_up(found)
    assert "before: 1 of 8 ranks read (0)" in found.notices
    assert found.to_frame()["delta_us"].sum() == pytest.approx(float(found.delta / 1000))
