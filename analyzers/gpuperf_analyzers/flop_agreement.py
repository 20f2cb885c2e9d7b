"""Whether the FLOPs that a live run counted are those of the ops in its trace.

The counter sees an op where torch's dispatcher hands it over, and nothing inside it; a trace
shows every level. So the two are held together where the counter stood: at the outermost call of
an op that it counted. What the trace shows beside those calls was not counted at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.display import show
from gpuperf_analyzers.flop_formulas.counting import calls_outside, outermost_calls
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.trace.links import enclosing
from gpuperf_analyzers.trace.model import I64, Bool, Finding, Trace
from gpuperf_analyzers.trace.steps import Step

TOLERANCE = 0.01
_RATES = frozenset({"flops", "tflops", "mfu", "hfu", "mamf_share"})


def flops_disagree(
    trace: Trace, config: Config, block: LiveBlock, steps: Sequence[Step]
) -> Iterator[Finding]:
    """Findings where counted FLOPs and those of the trace's shapes are more than 1% apart.

    Per step, over what began in the steps. Declared FLOPs are not held against a count.
    """
    counted = {name.partition(" ")[0] for name in block.flops_by_op}
    if not counted or not steps or block.flops_source == "declared":
        return
    rows, flops = outermost_calls(trace, config.flop_formulas, counted)
    inside = _in_steps(trace, rows, steps)
    yield from _apart(trace, block, rows[inside], flops[inside], len(steps))
    # A higher-order op is no event of its own, so what is inside it cannot be told.
    if all("::" in name for name in counted):
        rows, flops = calls_outside(trace, config.flop_formulas, counted)
        inside = _in_steps(trace, rows, steps)
        yield from _uncounted(trace, block, rows[inside], flops[inside], len(steps))


def _in_steps(trace: Trace, rows: I64, steps: Sequence[Step]) -> Bool:
    """Whether each event began within a step."""
    at = trace.events.ts[rows]
    start = np.array([s.host_start for s in steps], dtype=np.int64)
    end = np.array([s.host_end for s in steps], dtype=np.int64)
    index = np.searchsorted(start, at, side="right") - 1
    mask: Bool = (index >= 0) & (at < end[np.maximum(index, 0)])
    return mask


def _apart(trace: Trace, block: LiveBlock, rows: I64, flops: I64, steps: int) -> Iterator[Finding]:
    """A finding where the ops that both know differ."""
    shapes: dict[str, int] = {}
    for row, count in zip(rows.tolist(), flops.tolist(), strict=True):
        name = trace.name_of(row)
        shapes[name] = shapes.get(name, 0) + count
    both = sorted(shapes.keys() & block.flops_by_op.keys())
    counted = sum(block.flops_by_op[name] for name in both)
    recorded = sum(shapes[name] for name in both) / steps
    if abs(recorded - counted) > TOLERANCE * counted:
        yield Finding(
            "flops-disagree",
            f"{show(counted, 'FLOP')} a step were counted, the trace's shapes give "
            f"{show(recorded, 'FLOP')} for the same ops: steps differ, or the counter did not see "
            "all (inside a custom op without a formula, or on another thread)",
            count=len(both),
            example=max(both, key=lambda name: abs(shapes[name] / steps - block.flops_by_op[name])),
            invalidates=_RATES,
        )


def _uncounted(
    trace: Trace, block: LiveBlock, rows: I64, flops: I64, steps: int
) -> Iterator[Finding]:
    """A finding where the trace's shapes give FLOPs that the counter did not see."""
    missed = int(flops.sum()) / steps
    if missed <= TOLERANCE * sum(block.flops_by_op.values()):
        return
    largest = int(rows[int(np.argmax(flops))])
    around = int(enclosing(trace, np.array([largest]), outermost=True)[0])
    hidden_in = trace.name_of(around if around >= 0 else largest)
    yield Finding(
        "flops-uncounted",
        f"the trace's shapes give {show(missed, 'FLOP')} a step that the counter did not see: work "
        f"inside {hidden_in}, or of another thread; give that op a formula "
        "(gpuperf_flop_formulas), or declare flops=",
        count=len(rows),
        example=hidden_in,
        invalidates=_RATES,
    )
