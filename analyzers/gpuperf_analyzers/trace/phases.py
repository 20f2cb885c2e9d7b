"""Forward, backward, optimizer or communication: the part of a step that an activity belongs to."""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.trace.classify import Device, names_mask
from gpuperf_analyzers.trace.links import enclosing, launches, launching_ops, nest_rows
from gpuperf_analyzers.trace.model import I8, I64, Bool, Category, Trace
from gpuperf_analyzers.trace.selection import activity

_BACKWARD = re.compile(r"autograd::engine::|torch::autograd::|\w+Backward\d*$")
_OPTIMIZER = re.compile(r"Optimizer\.")


class Phase(IntEnum):
    """Part of a training step."""

    FORWARD = 0
    """Launched from a CPU op that is none of the others."""
    BACKWARD = 1
    """Launched by the autograd engine: under its span or a node's, or with a forward thread."""
    OPTIMIZER = 2
    """Launched inside an ``Optimizer.…`` annotation."""
    COLLECTIVES = 3
    """Communication, whoever launched it."""
    OTHER = 4
    """Launched outside of any CPU op, or by nothing that the trace shows."""


def phases(trace: Trace, device: Device, config: Config) -> I8:
    """The phase of each activity, in the order of ``activity().rows``."""
    found = activity(trace, device, config)
    e = trace.events
    if device == "cpu":
        host, inner = found.rows, found.rows
        outer = enclosing(trace, found.rows, outermost=True)
        outer = np.where(outer >= 0, outer, found.rows)
    else:
        host = launches(trace)[found.rows]
        inner = launching_ops(trace)[found.rows]
        outer = launching_ops(trace, outermost=True)[found.rows]
    result = np.full(len(found.rows), Phase.OTHER, dtype=np.int8)
    result[inner >= 0] = Phase.FORWARD
    backward = names_mask(trace, outer, _BACKWARD.match) | (
        (inner >= 0) & (e.fwd_thread[np.maximum(inner, 0)] > 0)
    )
    result[backward] = Phase.BACKWARD
    result[_in_optimizer(trace, host)] = Phase.OPTIMIZER
    result[np.searchsorted(found.rows, found.comm_rows)] = Phase.COLLECTIVES
    return result


def optimizer_spans(trace: Trace) -> I64:
    """Rows of the ``Optimizer.…`` annotations, in time order."""
    spans = trace.rows(Category.USER_ANNOTATION, Category.CPU_OP)
    return spans[names_mask(trace, spans, _OPTIMIZER.match)]


def _in_optimizer(trace: Trace, host: I64) -> Bool:
    """Whether each host event lies in an optimizer's span on its own track."""
    e = trace.events
    spans = optimizer_spans(trace)
    at = np.maximum(host, 0)
    around = nest_rows(trace, spans).innermost(e.track[at].astype(np.int64), e.ts[at])
    inside: Bool = (around >= 0) & (host >= 0)
    return inside
