"""``gpuperf analyze``: the numbers of each rank and of the set, for a person or for a program."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.cli.foreign import report as report_foreign
from pytest_gpuperf.cli.foreign import which_are_foreign
from pytest_gpuperf.cli.html_page import write_html
from pytest_gpuperf.cli.inputs import (
    USAGE,
    add_inputs,
    complain,
    read_inputs,
    reading,
    status_of,
    whole_number,
)
from pytest_gpuperf.cli.json_output import print_json
from pytest_gpuperf.cli.mark import write_marked
from pytest_gpuperf.cli.nccl_choices import read_choices, told_by_log
from pytest_gpuperf.cli.partial import analyzed
from pytest_gpuperf.cli.perfetto import write_perfetto
from pytest_gpuperf.cli.snapshots import bytes_asked, report, which_are_snapshots

if TYPE_CHECKING:
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import TraceSet

TOP = 10


def run(argv: Sequence[str]) -> int:
    """Print the analysis: 0; 2 where an input could not be read, 130 after Ctrl-C."""
    parser = _parser()
    args = parser.parse_args(argv)
    of_the_whole = (args.step, args.rank, args.mark, args.nccl_log, args.html, args.perfetto)
    if args.span is not None and (args.csv or any(o is not None for o in of_the_whole)):
        parser.error("--span goes with --json only: it shows every passage of every rank")
    snapshots = which_are_snapshots(args.paths)
    if snapshots or args.fit is not None:
        return _snapshots(parser, args, snapshots)
    foreign = which_are_foreign(args.paths)
    if foreign:
        return _foreign(parser, args, foreign)
    return _traces(args)


def _foreign(
    parser: argparse.ArgumentParser, args: argparse.Namespace, foreign: Sequence[str]
) -> int:
    """Print what files of other tools say; what is asked of traces only is wrong usage."""
    if len(foreign) < len(args.paths):
        other = next(path for path in args.paths if path not in foreign)
        parser.error(f"{other} is of another kind than {foreign[0]}: one kind at a time")
    of_traces = (
        args.span, args.step, args.rank, args.mark, args.nccl_log, args.html, args.perfetto,
    )  # fmt: skip
    if args.csv or any(option is not None for option in of_traces):
        parser.error("of a file of another tool there are --json and --top only")
    return report_foreign(foreign, top=args.top, as_json=args.json)


def _traces(args: argparse.Namespace) -> int:
    """Print the analysis of traces."""
    traces = read_inputs(args.paths, **reading(args))
    if traces is None:
        return USAGE
    if args.span is not None:
        from pytest_gpuperf.cli.span import report_span

        return report_span(traces, args.span, as_json=args.json)
    both = _analyzed(traces, args.nccl_log)
    if both is None:
        return USAGE
    traces, found = both
    if args.step not in (None, "all") and not _has_step(found, int(args.step)):
        complain(f"no trace has a step {args.step}: {_steps_in_words(found)}")
        return USAGE
    if args.rank not in (None, "all") and int(args.rank) not in {r.rank for r in found.ranks}:
        there = ", ".join(str(r.rank) for r in found.ranks[:20])
        complain(f"no trace is of rank {args.rank}: there are {there}")
        return USAGE
    if args.json:
        document = set_document(found, args.top)
        print_json(document)
    elif args.csv:
        _write_csv(found)
    elif args.html is not None:
        return max(write_html(traces, found, args.html), status_of(found.failed))
    else:
        from pytest_gpuperf.cli.views import print_set

        print_set(found, top=args.top, step=args.step, rank=args.rank)
    marked = 0 if args.mark is None else write_marked(traces, found, args.mark)
    if args.perfetto is not None:
        marked = max(marked, write_perfetto(traces, found, args.perfetto))
    return status_of(found.failed) or marked


def _snapshots(
    parser: argparse.ArgumentParser, args: argparse.Namespace, snapshots: Sequence[str]
) -> int:
    """Print what allocator snapshots hold; what is asked of traces only is wrong usage."""
    if len(snapshots) < len(args.paths):
        parser.error("allocator snapshots and --fit do not go with traces: one kind at a time")
    of_traces = (args.span, args.step, args.rank, args.mark, args.nccl_log)
    if args.csv or any(option is not None for option in of_traces):
        parser.error("of an allocator snapshot there are --json, --top and --fit only")
    return report(snapshots, size=args.fit, top=args.top, as_json=args.json)


def _analyzed(traces: TraceSet, logs: Sequence[str] | None) -> tuple[TraceSet, SetAnalysis] | None:
    """What was analyzed, with what NCCL's `logs` know; None, after a line why, without them."""
    if logs is None:
        return analyzed(traces)
    choices = read_choices(logs)
    if choices is None:
        return None
    traces, found = analyzed(traces)
    return traces, told_by_log(found, choices)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf analyze",
        allow_abbrev=False,
        description="The numbers of a trace, or of the traces of several ranks and their set; of a "
        "snapshot of torch's CUDA allocator (torch.cuda.memory._dump_snapshot) its segments, live "
        "blocks and history.",
    )
    add_inputs(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything as JSON")
    form.add_argument(
        "--csv", action="store_true", help="one line a rank, device, step and metric, as CSV"
    )
    form.add_argument(
        "--html", metavar="PATH", help="everything as one HTML page that opens without a network"
    )
    parser.add_argument(
        "--span",
        metavar="NAME",
        help="only what ran in the annotations (record_function) of this name",
    )
    parser.add_argument(
        "--step",
        type=_number_or_all,
        metavar="N|all",
        help="the timeline of step N, or of every step",
    )
    parser.add_argument(
        "--rank",
        type=_number_or_all,
        metavar="N|all",
        help="of a set: the rank shown in full (default: the one whose steps are longest)",
    )
    parser.add_argument(
        "--top",
        type=whole_number,
        default=TOP,
        metavar="N",
        help="rows of the tables of ops, kernels and gaps (default %(default)s)",
    )
    parser.add_argument(
        "--fit",
        type=bytes_asked,
        metavar="BYTES",
        help="of an allocator snapshot: what would have had to go for an allocation of this size "
        "(2GiB); by default the last one that failed",
    )
    parser.add_argument(
        "--nccl-log",
        action="append",
        metavar="FILE",
        help="NCCL's log (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=TUNING): which algorithm and protocol "
        "each collective had; may be repeated",
    )
    parser.add_argument(
        "--mark",
        metavar="OUT",
        help="write the trace once more to OUT (.json, .json.gz) with its critical path as tracks "
        "of its own, for Perfetto",
    )
    parser.add_argument(
        "--perfetto",
        metavar="OUT",
        help="write the trace, or all ranks on one time axis, to OUT (.json, .json.gz) with steps, "
        "exposed communication, idle by cause, memory and critical path as tracks",
    )
    return parser


def _number_or_all(text: str) -> str:
    if text != "all" and not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor 'all'")
    return text if text == "all" else str(int(text))


def _has_step(found: SetAnalysis, number: int) -> bool:
    return any(s.number == number for r in found.ranks for d in r.devices for s in d.steps)


def _steps_in_words(found: SetAnalysis) -> str:
    numbers = sorted({s.number for r in found.ranks for d in r.devices for s in d.steps})
    if not numbers:
        return "there are no ProfilerStep annotations"
    return f"there are {', '.join(map(str, numbers[:20]))}{', …' if len(numbers) > 20 else ''}"


def set_document(found: SetAnalysis, top: int) -> dict[str, Any]:
    """The analysis with the first `top` rows of each question's table, as plain JSON types."""
    document = found.to_json()
    for rank, analysis in zip(document["ranks"], found.ranks, strict=True):
        for row, device in zip(rank["devices"], analysis.devices, strict=True):
            row["tables"] = {
                name: _records(result, None if name == "timeline" else top)
                for name, result in device.results.items()
                if hasattr(result, "to_frame")
            }
    return document


def _records(result: Any, top: int | None) -> list[dict[str, Any]]:
    from pytest_gpuperf.report.json_report import plain

    frame = result.to_frame()
    kept = frame if top is None else frame.head(top)
    # Through JSON types: numpy scalars and NaN are neither.
    records = kept.astype(object).where(kept.notna(), None).to_dict("records")
    return [{str(k): plain(_scalar(v)) for k, v in row.items()} for row in records]


def _scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


_CSV_COLUMNS = (
    "path", "rank", "device", "step", "metric", "unit", "value", "low", "high", "n", "source",
    "absent_reason", "at",
)  # fmt: skip


def _write_csv(found: SetAnalysis) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(_CSV_COLUMNS)
    for rank in found.ranks:
        for device in rank.devices:
            head = (rank.path, rank.rank, device.device)
            for name, metric in found.metrics.items():
                value = device.values.get(name)
                if value is None:
                    continue
                low, high = value.interval or (None, None)
                out.writerow(
                    (*head, "", name, metric.unit, value.value, low, high, value.n, value.source,
                     value.absent_reason, value.at)
                )  # fmt: skip
                per_step = zip(device.steps, value.samples, strict=False)
                if len(value.samples) == len(device.steps):
                    for step, sample in per_step:
                        out.writerow(
                            (*head, step.number, name, metric.unit, sample, None, None, 1,
                             value.source, None, "")
                        )  # fmt: skip
