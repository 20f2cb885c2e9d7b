"""Which op of a nest counts, against a plain recursion over random nests."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuperf_analyzers.flop_formulas import FORMULAS
from gpuperf_analyzers.flop_formulas.counting import counted_ops
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace

BY_OP = {f.op: f for f in FORMULAS}

# A tree: (what the op is, children). "number" has a formula and shapes, "silent" a formula without
# shapes, "plain" no formula.
trees = st.recursive(
    st.tuples(st.sampled_from(["number", "silent", "plain"]), st.just(())),
    lambda inner: st.tuples(
        st.sampled_from(["number", "silent", "plain"]), st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=12,
)


def draw(t: KinetoTrace, tree: tuple, at: float, names: list[tuple[str, bool]]) -> float:
    """Write `tree` as nested ops from `at` on; names tell which should count. Gives the end."""
    kind, children = tree
    events = len(t.events)
    t.op("aten::relu" if kind == "plain" else "aten::mm", at, 0,
         dims=[[4, 2], [2, 3]] if kind == "number" else None)  # fmt: skip
    end = at + 1
    for child in children:
        end = draw(t, child, end, names) + 1
    t.events[events]["dur"] = end - at
    names.append((f"{at}", kind == "number" and not any(has_number(c) for c in children)))
    return end


def has_number(tree: tuple) -> bool:
    return tree[0] == "number" or any(has_number(c) for c in tree[1])


@settings(max_examples=60, deadline=None)
@given(st.lists(trees, min_size=1, max_size=4))
def test_an_op_counts_if_it_has_a_number_and_nothing_inside_it_has(forest: list[tuple]) -> None:
    t = KinetoTrace(device_name=None)
    expected: list[tuple[str, bool]] = []
    at = 0.0
    for tree in forest:
        at = draw(t, tree, at, expected) + 5
    with tempfile.TemporaryDirectory() as folder:
        trace = read_trace(t.write(Path(folder) / "t.json"))
    counted = counted_ops(trace, BY_OP)
    ours = sorted(trace.events.ts[counted.rows].tolist())
    assert ours == sorted(round(float(at) * 1000) for at, counts in expected if counts)
    assert {k.flops for k in counted.kinds} <= {2 * 4 * 2 * 3}
    # Each op belongs to the nearest counted op at or around it.
    owner = counted.owner[counted.rows]
    assert owner.tolist() == list(range(len(counted.rows)))


def test_two_threads_do_not_nest_in_one_another(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::mm", 0, 100, dims=[[4, 2], [2, 3]])
    t.op("aten::mm", 10, 20, dims=[[4, 2], [2, 3]], tid=200)
    trace = read_trace(t.write(tmp_path / "t.json"))
    assert len(counted_ops(trace, BY_OP).rows) == 2


def test_shapes_that_are_not_json_give_no_number(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::mm", 0, 10, dims="[[4, 2], [2,")
    t.op("aten::mm", 20, 10, dims=json.loads('[[4, "x"], [2, 3]]'))
    t.op("aten::mm", 40, 10, dims={"0": [4, 2]})
    trace = read_trace(t.write(tmp_path / "t.json"))
    assert len(counted_ops(trace, BY_OP).rows) == 0
