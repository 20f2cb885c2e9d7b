"""Before and after: op tables, matched op by op, and what explains the change in step time."""

from gpuperf_analyzers.diff.building import device_table, op_table, pooled
from gpuperf_analyzers.diff.changes import Change, Cost, Diff, PartChange, diff
from gpuperf_analyzers.diff.slow_steps import SlowStep, slow_steps
from gpuperf_analyzers.diff.table import OpRow, OpTable, Part, StepTime
from gpuperf_analyzers.diff.text import regression_text

__all__ = [
    "Change",
    "Cost",
    "Diff",
    "OpRow",
    "OpTable",
    "Part",
    "PartChange",
    "SlowStep",
    "StepTime",
    "device_table",
    "diff",
    "op_table",
    "pooled",
    "regression_text",
    "slow_steps",
]
