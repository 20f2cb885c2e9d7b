"""``gpuperf metrics``: the one table that limits, reports and this command are made from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from gpuperf_analyzers.metrics import Metric
from gpuperf_analyzers.registry import load_metrics, plugin_manager
from pytest_gpuperf.cli.json_output import print_json

DIRECTIONS = {"higher": "higher is better", "lower": "lower is better"}


def run(argv: Sequence[str]) -> int:
    """Print every metric of the built-in table and of installed plugins."""
    parser = argparse.ArgumentParser(
        prog="gpuperf metrics",
        allow_abbrev=False,
        description="Every metric: each can be a limit, min_NAME or max_NAME in a marker, "
        "--min-NAME or --max-NAME of `gpuperf check`.",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as the table of docs/definitions.md")
    args = parser.parse_args(argv)
    metrics = load_metrics(plugin_manager())
    if args.json:
        document = {name: asdict(metric) for name, metric in metrics.items()}
        print_json(document)
    elif args.markdown:
        sys.stdout.write(markdown_table(metrics))
    else:
        _print_table(metrics)
    return 0


def markdown_table(metrics: Mapping[str, Metric]) -> str:
    """The metrics as a markdown table, one row a metric, in the order of the table."""
    titles = ("metric", "unit", "better", "scope", "formula", "over steps", "on a CPU", "source")
    lines = [_row(titles), _row([":--"] * len(titles))]
    for m in metrics.values():
        free_text = (m.formula, m.aggregate, m.cpu, m.source)
        lines.append(_row((f"`{m.name}`", m.unit, m.better, m.scope, *map(_escaped, free_text))))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def _print_table(metrics: Mapping[str, Metric]) -> None:
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    console = make_console()
    shown = table("metric", "unit", "better", "formula")
    for metric in metrics.values():
        shown.add_row(
            words(metric.name),
            words(metric.unit),
            words(metric.better),
            words(f"{metric.formula}; {metric.aggregate}"),
        )
    emit(console, shown)
    emit(
        console,
        words("Limits: min_NAME and max_NAME; --min-NAME and --max-NAME of `gpuperf check`."),
    )
