"""Which recorded ops count, and how much: the innermost op of a nest whose formula gives a number.

``aten::linear`` and the ``aten::addmm`` inside it are one product: the inner one counts. An op
whose shapes or scalars were not recorded gives no number, and the op around it may.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuperf_analyzers.flop_formulas.arguments import dtype_of, is_complex
from gpuperf_analyzers.hookspecs import FlopFormula, OpCall
from gpuperf_analyzers.trace.links import nesting
from gpuperf_analyzers.trace.model import I64, Bool, Trace

_LARGEST = 2**56
"""No call is of 7e16 FLOP or bytes: shapes that say so are damage, and sums would overflow."""


@dataclass(frozen=True, slots=True)
class OpKind:
    """One signature: name, shapes and types, with what a call of it costs."""

    call: OpCall
    label: str
    dtype: str | None
    flops: int
    moved: int | None


@dataclass(frozen=True, slots=True, eq=False)
class CountedOps:
    """The op calls of a trace that count.

    ``kinds`` are the signatures; the call in event row ``rows[i]`` (ascending) is of kind
    ``kind[i]``. ``owner`` gives for every event row that is a CPU op the index into ``rows`` of
    the counted call at or around it, -1 for none; ``inside`` whether it is at or inside any op
    whose formula gives a number, counted or not. ``without_shapes`` counts calls of ops with a
    formula whose shapes were not recorded; ``without_number`` those that had shapes which do not
    suffice.
    """

    kinds: tuple[OpKind, ...]
    rows: I64
    kind: I64
    owner: I64
    inside: Bool
    without_shapes: int
    without_number: int


def counted_ops(trace: Trace, formulas: Mapping[str, FlopFormula]) -> CountedOps:
    """The op calls of `trace` that count under `formulas`; computed once per trace."""
    cached = trace.memo.get("counted_ops")
    if cached is not None and cached[0] is formulas:
        known: CountedOps = cached[1]
        return known
    found = _count(trace, formulas)
    trace.memo["counted_ops"] = (formulas, found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Valued:
    """Every op call whose formula gives a number, nested ones too.

    ``at`` are positions in the nesting, ``kind[i]`` the signature of each. The counts are those
    of :class:`CountedOps`.
    """

    kinds: tuple[OpKind, ...]
    at: I64
    kind: I64
    without_shapes: int
    without_number: int


def outermost_calls(
    trace: Trace, formulas: Mapping[str, FlopFormula], names: Collection[str]
) -> tuple[I64, I64]:
    """Calls of the ops `names` that are not inside another of them: event rows, and their FLOP.

    A call without a number is left out, and so is what is inside it.
    """
    nest, valued = nesting(trace), _valued(trace, formulas)
    around, parent = _nearest(nest.parent, _named(trace, nest.rows, names)), nest.parent[valued.at]
    own = around[valued.at] == valued.at
    inside = np.where(parent >= 0, around[parent], -1) >= 0
    top = own & ~inside
    flops = np.array([kind.flops for kind in valued.kinds], dtype=np.int64)
    return nest.rows[valued.at[top]], flops[valued.kind[top]]


def calls_outside(
    trace: Trace, formulas: Mapping[str, FlopFormula], names: Collection[str]
) -> tuple[I64, I64]:
    """Counted calls that neither are nor are inside one of the ops `names`: rows, and FLOP."""
    nest, counted = nesting(trace), counted_ops(trace, formulas)
    known = np.zeros(len(trace.events), dtype=np.bool_)
    known[nest.rows] = _nearest(nest.parent, _named(trace, nest.rows, names)) >= 0
    flops = np.array([kind.flops for kind in counted.kinds], dtype=np.int64)
    outside = ~known[counted.rows]
    return counted.rows[outside], flops[counted.kind[outside]]


def _named(trace: Trace, rows: I64, names: Collection[str]) -> Bool:
    """Whether each row's event has one of `names`."""
    wanted = np.array([s in names for s in trace.strings], dtype=np.bool_)
    mask: Bool = wanted[trace.events.name[rows]] if len(wanted) else np.zeros(0, dtype=np.bool_)
    return mask


def _count(trace: Trace, formulas: Mapping[str, FlopFormula]) -> CountedOps:
    found = _valued(trace, formulas)
    return _innermost(
        trace, found.kinds, found.at, found.kind, found.without_shapes, found.without_number
    )


def _valued(trace: Trace, formulas: Mapping[str, FlopFormula]) -> _Valued:
    cached = trace.memo.get("valued_ops")
    if cached is None or cached[0] is not formulas:
        cached = trace.memo["valued_ops"] = (formulas, _find_valued(trace, formulas))
    found: _Valued = cached[1]
    return found


def _find_valued(trace: Trace, formulas: Mapping[str, FlopFormula]) -> _Valued:
    e, nest = trace.events, nesting(trace)
    at = np.flatnonzero(_named(trace, nest.rows, formulas))
    rows = nest.rows[at]
    signature = np.stack([e.name[rows], e.dims[rows], e.dtypes[rows], e.concrete[rows]], axis=1)
    unique, inverse, calls = np.unique(signature, axis=0, return_inverse=True, return_counts=True)
    kinds: list[OpKind] = []
    kind_of = np.full(len(unique), -1, dtype=np.int64)
    for i, key in enumerate(unique.tolist()):
        kind = _kind(trace, formulas, *key)
        if kind is not None:
            kind_of[i] = len(kinds)
            kinds.append(kind)
    kind_at = kind_of[inverse.reshape(-1)] if len(at) else np.empty(0, dtype=np.int64)
    bare = unique[:, 1] < 0
    return _Valued(
        tuple(kinds), at[kind_at >= 0], kind_at[kind_at >= 0],
        int(calls[bare].sum()), int(calls[~bare & (kind_of < 0)].sum()),
    )  # fmt: skip


def _innermost(
    trace: Trace, kinds: tuple[OpKind, ...], at: I64, kind: I64, bare: int, numberless: int
) -> CountedOps:
    """Leave out the ops that have another with a number inside them."""
    nest = nesting(trace)
    total = len(nest.rows)
    valued = np.zeros(total, dtype=np.bool_)
    valued[at] = True
    around = _nearest(nest.parent, valued)
    parents = nest.parent[at]
    above = np.where(parents >= 0, around[parents], -1) if total else parents
    counted = valued.copy()
    counted[above[above >= 0]] = False
    kept = counted[at]
    order = np.argsort(nest.rows[at[kept]], kind="stable")
    position = at[kept][order]
    index = np.full(total + 1, -1, dtype=np.int64)
    index[position] = np.arange(len(position))
    owner = np.full(len(trace.events), -1, dtype=np.int64)
    owner[nest.rows] = index[_nearest(nest.parent, counted)]
    inside = np.zeros(len(trace.events), dtype=np.bool_)
    inside[nest.rows] = around >= 0
    return CountedOps(
        kinds, nest.rows[position], kind[kept][order], owner, inside, bare, numberless
    )


def _nearest(parent: I64, wanted: Bool) -> I64:
    """For each position the nearest at or above it that is `wanted`, -1 for none."""
    step = np.where(wanted | (parent < 0), np.arange(len(parent)), parent)
    while True:
        further = step[step]
        if np.array_equal(further, step):
            return np.where(wanted[step], step, -1) if len(step) else step
        step = further


def _kind(
    trace: Trace, formulas: Mapping[str, FlopFormula], name: int, dims: int, dtypes: int,
    concrete: int,
) -> OpKind | None:  # fmt: skip
    call = OpCall(
        trace.strings[name],
        _nested(_json(trace, dims)),
        tuple(str(t) for t in _json(trace, dtypes)),
        tuple(v if isinstance(v, str) else json.dumps(v) for v in _json(trace, concrete)),
    )
    formula = formulas[call.name]
    if dims < 0 or is_complex(call):
        return None
    flops = formula.count(call)
    if flops is None or not 0 <= flops < _LARGEST:
        return None
    moved = formula.bytes_moved(call) if formula.bytes_moved is not None else None
    moved = moved if moved is not None and 0 <= moved < _LARGEST else None
    return OpKind(call, formula.label, dtype_of(call), flops, moved)


def _json(trace: Trace, string: int) -> list[Any]:
    """A column's raw JSON text as a list, empty where there is none."""
    if string < 0:
        return []
    try:
        value = json.loads(trace.strings[string])
    except ValueError:
        return []
    return value if isinstance(value, list) else []


def _nested(value: Any) -> Any:
    return tuple(_nested(v) for v in value) if isinstance(value, list) else value
