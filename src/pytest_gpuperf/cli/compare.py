"""``gpuperf compare``: two traces, or two sets of them, before and after."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import harmless, show
from gpuperf_analyzers.limits import Judgement, LimitError, Verdict, parse_limits, worst
from gpuperf_analyzers.registry import load_metrics, plugin_manager
from pytest_gpuperf.cli.inputs import (
    INTERRUPTED,
    USAGE,
    add_reading,
    complain,
    interrupted,
    read_inputs,
    reading,
    whole_number,
)
from pytest_gpuperf.cli.json_output import print_json
from pytest_gpuperf.cli.partial import analyzed
from pytest_gpuperf.cli.snapshots import compare as compare_snapshots
from pytest_gpuperf.cli.snapshots import which_are_snapshots

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.diff import Diff, OpTable
    from gpuperf_analyzers.memory_change import MemoryChange
    from gpuperf_analyzers.metrics import Metric
    from gpuperf_analyzers.set_analysis import SetAnalysis

TOP = 10


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: what was named, its analysis and its op table."""

    named: str
    analysis: SetAnalysis
    table: OpTable


def run(argv: Sequence[str]) -> int:
    """Print what changed: 0 fine, 1 FAIL or INVALID, 2 usage or unreadable input, 130 Ctrl-C."""
    parser = _parser()
    args = parser.parse_args(argv)
    named = (args.before, args.after)
    snapshots = which_are_snapshots(named)
    if snapshots:
        if len(snapshots) < len(named):
            parser.error("an allocator snapshot compares with another one only")
        if args.max_regression:
            parser.error("--max-regression is of traces: snapshots have no steps")
        return compare_snapshots(*named, top=args.top, as_json=args.json)
    manager = plugin_manager()
    metrics = load_metrics(manager)
    try:
        limits = parse_limits(_regressions(args.max_regression), metrics)
    except LimitError as error:
        complain(str(error))
        return USAGE
    from gpuperf_analyzers.registry import load_config

    config = load_config(manager)
    try:
        before, after = (_read(path, config, args) for path in (args.before, args.after))
    except KeyboardInterrupt:
        # Some ranks of one side against all of the other would be no comparison.
        complain("interrupted: nothing is compared")
        return INTERRUPTED
    if before is None or after is None:
        return USAGE
    from gpuperf_analyzers.diff import diff
    from gpuperf_analyzers.diff.verdict import judge_regressions

    found = diff(before.table, after.table)
    judged = judge_regressions(
        limits,
        before.analysis.values,
        after.analysis.values,
        metrics,
        invalid=_invalid(before, after),
        incomparable=incomparable(before, after),
    )
    verdict = worst(j.verdict for j in judged)
    if args.json:
        made = document(before, after, found, judged, metrics, args.top)
        print_json(made)
    else:
        from pytest_gpuperf.cli.views.compare import print_comparison

        print_comparison(before, after, found, judged, top=args.top)
    if before.analysis.failed or after.analysis.failed:
        return USAGE
    return 1 if verdict.fails(strict=args.strict) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf compare",
        allow_abbrev=False,
        description="Two traces, or two folders of one trace a rank, before and after: what got "
        "slower, faster, new and gone, and how much each explains of the change in mean step "
        "time. Every moment of a step is one op's (the compute kernel that began first), exposed "
        "communication's, exposed memory's or idle, so that the parts add up to the change. Two "
        "allocator snapshots: which places have more live memory than before.",
    )
    for name in ("before", "after"):
        parser.add_argument(
            name, metavar=name.upper(), help=f"the trace or folder of traces {name}"
        )
    add_reading(parser)
    parser.add_argument(
        "--max-regression",
        action="append",
        default=[],
        metavar="[METRIC=]SHARE",
        help="judge the change (3%%, 0.03) of step_time or METRIC by the values' intervals; "
        "may be repeated",
    )
    parser.add_argument(
        "--top",
        type=whole_number,
        default=TOP,
        metavar="N",
        help="rows of the tables (default %(default)s); what is left is summed in a row",
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 1 on AMBIGUOUS, UNMEASURED and INCOMPARABLE too",
    )
    return parser


def _regressions(written: Sequence[str]) -> dict[str, object]:
    """What was given as the marker would have it."""
    if not written:
        return {}
    by_metric = {}
    for text in written:
        metric, separator, share = text.rpartition("=")
        by_metric[metric.strip().replace("-", "_") if separator else "step_time"] = share.strip()
    return {"max_regression": by_metric}


def _read(path: str, config: Config, args: argparse.Namespace) -> Side | None:
    """One side; None, after a line that says why, where there is nothing to compare.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C left some of its ranks out.
    """
    traces = read_inputs([path], **reading(args))
    if traces is None:
        return None
    if interrupted(traces.failed):
        raise KeyboardInterrupt
    from gpuperf_analyzers.diff import op_table

    try:
        table = op_table(traces, config)
    except ValueError as error:
        complain(str(error))
        return None
    _, found = analyzed(traces, config)
    if interrupted(found.failed):
        raise KeyboardInterrupt
    return Side(path, found, table)


def _invalid(before: Side, after: Side) -> dict[str, str]:
    """Metrics that cannot be judged on either side, with the reason and the side."""
    found: dict[str, str] = {}
    for side, word in ((before, "before"), (after, "after")):
        for metric, reason in side.analysis.invalid.items():
            found.setdefault(metric, f"{word}: {reason}")
    return found


def incomparable(before: Side, after: Side) -> str:
    """Why the two cannot be judged against each other, "" where they can."""
    old, new = before.analysis, after.analysis
    if (old.device_type, old.device_name) != (new.device_type, new.device_name):
        names = [a.device_name or "an unnamed device" for a in (old, new)]
        return f"other hardware: {names[0]} before, {names[1]} after"
    if (old.block is None) != (new.block is None):
        how = ["under the profiler" if a.block is None else "with it off" for a in (old, new)]
        return f"steps were timed {how[0]} before and {how[1]} after"
    return ""


def judgement_line(judged: Judgement) -> str:
    """``FAIL  max_regression of step_time: '3%': +6.5% (95% CI +4.1% to +8.8%)``."""
    text = f"{judged.verdict.value:<12}  {harmless(judged.text, 80)}"
    if judged.value is not None:
        text += f": {_signed(judged.value)}"
        if judged.interval is not None:
            low, high = judged.interval
            text += f" (95% intervals: {_signed(low)} to {_signed(high)})"
    if judged.at:
        text += f" on {harmless(judged.at, 60)}"
    return f"{text}: {harmless(judged.reason, 240)}" if judged.reason else text


def _signed(change: float) -> str:
    return f"{'−' if change < 0 else '+'}{show(abs(change), 'fraction')}"


def memory_of(before: Side, after: Side) -> MemoryChange | None:
    """What grew in memory, of the first rank of each side."""
    from gpuperf_analyzers.memory_change import memory_change

    return memory_change(before.analysis.ranks[0], after.analysis.ranks[0])


def document(
    before: Side,
    after: Side,
    found: Diff,
    judged: Sequence[Judgement],
    metrics: Mapping[str, Metric],
    top: int,
) -> dict[str, Any]:
    """The comparison as plain JSON types."""
    grew = memory_of(before, after)
    return {
        "memory": None if grew is None else grew.to_json(top),
        "verdict": worst(j.verdict for j in judged).value if judged else None,
        "before": _side_document(before, metrics),
        "after": _side_document(after, metrics),
        "limits": [
            {
                "text": j.text,
                "metric": j.metric,
                "verdict": j.verdict.value,
                "limit": j.limit,
                "change": j.value,
                "interval": None if j.interval is None else list(j.interval),
                "reason": j.reason,
                "at": j.at,
            }
            for j in judged
        ],
        **found.to_json(top),
    }


def _side_document(side: Side, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    from gpuperf_analyzers.combining import value_json

    step_time = side.analysis.values["step_time"]
    return {
        "named": side.named,
        "traces": [rank.path for rank in side.analysis.ranks],
        "failed": dict(side.analysis.failed),
        "device_name": side.table.device_name,
        "device_type": side.table.device_type,
        "world_size": side.table.world_size,
        "ranks": list(side.table.ranks),
        "steps": len(side.table.steps),
        "step_time": value_json(step_time, metrics["step_time"].unit),
    }


def colour(verdict: Verdict) -> str:
    """How a terminal shows a verdict."""
    return {"PASS": "green", "FAIL": "bold red", "INVALID": "bold red"}.get(verdict, "yellow")
