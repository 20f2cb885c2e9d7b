"""``gpuperf check``: a trace, or the traces of several ranks, judged by limits."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import harmless, show, show_interval
from gpuperf_analyzers.failure_text import causes_text
from gpuperf_analyzers.limits import (
    Judgement,
    LimitError,
    Verdict,
    judge,
    parse_limits,
    worst,
)
from gpuperf_analyzers.registry import load_metrics, plugin_manager
from pytest_gpuperf.cli.foreign import check, which_are_foreign
from pytest_gpuperf.cli.inputs import (
    USAGE,
    add_inputs,
    complain,
    read_inputs,
    reading,
    status_of,
)
from pytest_gpuperf.cli.json_output import print_json
from pytest_gpuperf.cli.limit_options import CheckParser, add_limit_options
from pytest_gpuperf.cli.partial import analyzed

if TYPE_CHECKING:
    from gpuperf_analyzers.set_analysis import SetAnalysis


_PROFILED = "under the profiler"


def run(argv: Sequence[str]) -> int:
    """Print a line for each limit: 0 fine, 1 FAIL or INVALID, 2 usage or unreadable input.

    After Ctrl-C the limits are judged on the ranks that were done, and the status is 130: a limit
    that these keep may still be broken by another.
    """
    manager = plugin_manager()
    metrics = load_metrics(manager)
    parser = _parser()
    add_limit_options(parser, metrics)
    args = parser.parse_args(argv)
    try:
        limits = parse_limits(args.limits, metrics)
    except LimitError as error:
        complain(str(error))
        return USAGE
    if not limits:
        complain("no limit given: for example --min-overlap 0.4 (`gpuperf metrics` lists them all)")
        return USAGE
    foreign = which_are_foreign(args.paths)
    if foreign:
        if len(foreign) < len(args.paths):
            complain(f"{foreign[0]} is no trace, and others are: one kind at a time")
            return USAGE
        return check(foreign, limits, metrics, strict=args.strict, as_json=args.json)
    traces = read_inputs(args.paths, **reading(args))
    if traces is None:
        return USAGE
    from gpuperf_analyzers.registry import load_config

    _, found = analyzed(traces, load_config(manager))
    judged = judge(
        found.values,
        limits,
        device_name=found.device_name,
        device_type=found.device_type,
        invalid=found.invalid,
    )
    verdict = worst(j.verdict for j in judged)
    if args.json:
        print_json(document(found, judged, verdict))
    else:
        _print(found, judged, verdict)
    return status_of(found.failed) or (1 if verdict.fails(strict=args.strict) else 0)


def _parser() -> argparse.ArgumentParser:
    parser = CheckParser(
        prog="gpuperf check",
        allow_abbrev=False,
        usage="gpuperf check FILE|DIR... --min-NAME VALUE --max-NAME VALUE ... [options]",
        description="Judge a trace by limits: of several ranks or devices the worst, named. "
        "Exit status 0: fine; 1: FAIL or INVALID; 2: wrong usage or unreadable input.",
    )
    add_inputs(parser)
    parser.add_argument("--json", action="store_true", help="the judgements as JSON")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 1 on AMBIGUOUS, UNMEASURED, NO-BASELINE and INCOMPARABLE too",
    )
    return parser


def judgement_line(judgement: Judgement, source: str = "") -> str:
    """``FAIL   min_overlap=0.6: 46.2% (95% CI 44.0–48.1) on rank 3: …``.

    A `source` that tells of the profiler is shown: it slows down what it records.
    """
    j = judgement
    text = f"{j.verdict.value:<10}  {harmless(j.text, 80)}"
    if j.value is None:
        return f"{text}: no value" + (f": {harmless(j.reason, 240)}" if j.reason else "")
    text += f": {show(j.value, j.unit)}"
    if j.interval is not None:
        text += f" (95% CI {show_interval(j.value, j.interval, j.unit)})"
    if j.at:
        text += f" on {harmless(j.at, 60)}"
    if _PROFILED in source:
        text += f", {_PROFILED}"
    return f"{text}: {harmless(j.reason, 240)}" if j.reason else text


def document(found: SetAnalysis, judged: Sequence[Judgement], verdict: Verdict) -> dict[str, Any]:
    """The judgements as plain JSON types."""
    return {
        "verdict": verdict.value,
        "device_name": found.device_name,
        "device_type": found.device_type,
        "traces": [rank.path for rank in found.ranks],
        "failed": dict(found.failed),
        "causes": failed_causes(found, judged),
        "limits": [
            {
                "text": j.text,
                "metric": j.metric,
                "direction": j.direction,
                "unit": j.unit,
                "limit": j.limit,
                "verdict": j.verdict.value,
                "value": j.value,
                "source": _source(found, j),
                "interval": None if j.interval is None else list(j.interval),
                "reason": j.reason,
                "at": j.at,
            }
            for j in judged
        ],
    }


def _source(found: SetAnalysis, judgement: Judgement) -> str:
    """Where the judged value comes from."""
    value = found.values.get(judgement.metric)
    return value.source if value is not None else ""


def failed_causes(found: SetAnalysis, judged: Sequence[Judgement]) -> list[dict[str, Any]]:
    """The largest causes of each limit on memory that is not met, of the rank that is named."""
    from gpuperf_analyzers.memory_causes import causes_json, memory_causes

    rows = []
    for j in judged:
        if j.verdict is Verdict.FAIL:
            named = [part.strip() for part in j.at.split(",")]
            ranks = [r for r in found.ranks if r.label and r.label in named] or list(found.ranks)
            labels = [d.label for d in ranks[0].devices if d.label in named]
            causes = memory_causes(ranks[0], j.metric, labels[0] if labels else "")
            rows += causes_json(j.metric, causes)
    return rows


def _print(found: SetAnalysis, judged: Sequence[Judgement], verdict: Verdict) -> None:
    from pytest_gpuperf.cli.console import emit, make_console, words

    console = make_console()
    colours = {Verdict.PASS: "green", Verdict.FAIL: "bold red", Verdict.INVALID: "bold red"}
    for j in judged:
        line = judgement_line(j, _source(found, j))
        emit(console, words(line, colours.get(j.verdict, "yellow"), 600))
    for line in causes_text(failed_causes(found, judged)):
        emit(console, words(line, width=600))
    if len(judged) > 1:
        emit(console, words(f"{verdict.value} in all", colours.get(verdict, "yellow")))
