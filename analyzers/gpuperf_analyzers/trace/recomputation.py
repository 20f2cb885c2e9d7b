"""Whether the forward pass is run again during the backward pass (activation checkpointing)."""

from __future__ import annotations

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.trace.model import Category, Trace

_ENGINE = "autograd::engine::evaluate_function: "
_REENTRANT = "CheckpointFunctionBackward"
_FORWARD_OPS = frozenset(
    {
        "aten::linear",
        "aten::matmul",
        "aten::conv1d",
        "aten::conv2d",
        "aten::conv3d",
        "aten::scaled_dot_product_attention",
        "aten::layer_norm",
        "aten::batch_norm",
        "aten::embedding",
        "aten::dropout",
    }
)
"""Ops that a model calls and that torch's own backward formulas do not."""


def recomputation(trace: Trace) -> str | None:
    """Why executed FLOPs are more than the model's, in words; None where nothing speaks for it.

    Checkpointing shows as a node of its own in the autograd graph, or as ops of a forward pass
    inside a node of the backward pass. A backward written in Python may call the latter too, so
    this errs towards saying so.
    """
    strings = trace.strings
    if any(s.startswith(_ENGINE) and s.endswith(_REENTRANT) for s in strings):
        return "activation checkpointing recomputes the forward pass"
    e = trace.events
    ops = e.cat == Category.CPU_OP
    forward = np.flatnonzero(ops & trace.names_matching(_FORWARD_OPS))
    nodes = np.flatnonzero(
        ops & trace.names_matching(frozenset(s for s in strings if s.startswith(_ENGINE)))
    )
    for track in np.intersect1d(e.track[forward], e.track[nodes]):
        inside = nodes[e.track[nodes] == track]
        backward = intervals.union(e.ts[inside], e.ts[inside] + e.dur[inside])
        here = forward[e.track[forward] == track]
        again = here[intervals.contains(backward, e.ts[here])]
        if len(again):
            name = trace.name_of(int(again[0]))
            return f"{name} ran inside the backward pass (recomputation)"
    return None
