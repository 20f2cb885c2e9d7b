"""``gpuperf history``: each metric over the runs, where it changed, and in which commit."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import harmless, show
from pytest_gpuperf.cli.baseline import found_above, matches
from pytest_gpuperf.cli.inputs import USAGE, complain

if TYPE_CHECKING:
    from gpuperf_analyzers.change_point import Change
    from pytest_gpuperf.baselines.history import History
    from pytest_gpuperf.baselines.history_levels import Told

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
_GIT_SECONDS = 10


def run(argv: Sequence[str]) -> int:
    """Print, plot or write the history: 0 fine, 2 usage or a file that cannot be read."""
    args = _parser().parse_args(argv)
    from pytest_gpuperf.baselines.history import DEFAULT_FILE, read

    work = found_above(".gpuperf") or Path(".gpuperf")
    path = Path(args.file) if args.file else work / DEFAULT_FILE
    try:
        history = read(path)
    except FileNotFoundError:
        complain(f"{path}: there is no history: `pytest --gpuperf-history` begins one")
        return USAGE
    told = _told(history, args)
    for count, what in (
        (history.skipped, "torn or foreign"),
        (history.newer, "of a newer gpuperf"),
    ):
        if count:
            complain(f"{path}: {count} {what} {'line' if count == 1 else 'lines'} left out")
    if not told:
        complain(f"{path}: nothing matches" if history.lines else f"{path}: is empty")
        return USAGE
    if args.json:
        from pytest_gpuperf.baselines.history_levels import history_json
        from pytest_gpuperf.cli.json_output import print_json

        print_json(history_json(told))
    else:
        _print(told, everything=args.all)
    return 0 if args.plot is None else _plot(told, Path(args.plot))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf history",
        allow_abbrev=False,
        description="Each metric over the runs that --gpuperf-history recorded, where its level "
        "changed, and between which commits.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="(.gpuperf/history.jsonl)")
    parser.add_argument(
        "--test", action="append", default=[], metavar="TEST", help="ids, or patterns with *"
    )
    parser.add_argument(
        "--metric", action="append", default=[], metavar="METRIC", help="only these metrics"
    )
    parser.add_argument(
        "--all", action="store_true", help="series too that never changed and are no step times"
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument("--plot", metavar="OUT", help="draw them to OUT (.svg, .png, .pdf)")
    return parser


def _told(history: History, args: argparse.Namespace) -> list[Told]:
    from pytest_gpuperf.baselines.history import series
    from pytest_gpuperf.baselines.history_levels import levels

    found = []
    metrics = [m.replace("-", "_") for m in args.metric]
    for name, lines in series(history):
        if not matches(name[1], args.test) or (metrics and name[3] not in metrics):
            continue
        found.append(levels(name, lines))
    return found


def _print(told: Sequence[Told], *, everything: bool) -> None:
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    console = make_console()
    units = _units()
    shown = table("test", "metric", "runs", "over the runs", "last")
    left = 0
    for each in told:
        _, test, name, metric = each.name
        if not (everything or each.changes or metric == "step_time"):
            left += 1
            continue
        values = [line.value for line in each.lines]
        shown.add_row(
            words(f"{test} [{name}]" if name else test, width=80), words(metric),
            words(len(values)), words(sparkline(values)), words(show(values[-1], units(metric))),
        )  # fmt: skip
    emit(console, shown)
    for each in told:
        for change in each.changes:
            console.print(words(change_line(each, change, units(each.name[3]))))
    if left:
        console.print(words(f"{left} counts that never changed (--all shows them)"))


def _units() -> Any:
    from gpuperf_analyzers.registry import load_metrics, plugin_manager

    metrics = load_metrics(plugin_manager())
    return lambda name: metrics[name].unit if name in metrics else ""


def sparkline(values: Sequence[float], width: int = _WIDTH) -> str:
    """The last `width` values as bars from their lowest to their highest; flat where equal."""
    kept = values[-width:]
    low, high = min(kept), max(kept)
    if low == high:
        return _BARS[0] * len(kept)
    return "".join(_BARS[round((v - low) / (high - low) * (len(_BARS) - 1))] for v in kept)


def change_line(told: Told, change: Change, unit: str) -> str:
    """``test_a.py::test_step, step_time: 1.000 ms → 1.200 ms (+20.0%, p 0.0005) at commit …``."""
    _, test, name, metric = told.name
    first, last = told.lines[change.index], told.lines[change.index - 1]
    by = change.relative
    sign = "−" if by < 0 else "+"
    share = f"{sign}{abs(by):.1%}" if abs(by) != float("inf") else "from nothing"
    sure = f", p {change.p:.2g}" if change.p else ", exact"
    at = f"at commit {_short(first.commit)} ({first.at[:10]})" if first.commit else first.at
    text = (
        f"{test}{f' [{name}]' if name else ''}, {metric}: {show(change.before, unit)} → "
        f"{show(change.after, unit)} ({share}{sure}) {at}"
    )
    return text + _between(last.commit, first.commit)


def _short(commit: str) -> str:
    sha, plus, dirty = commit.partition("+")
    return harmless(f"{sha[:12]}{plus}{dirty}", 40)


def _between(before: str, after: str) -> str:
    """How many commits the change may be one of, and the subject where it is one."""
    old, new = before.partition("+")[0], after.partition("+")[0]
    if not old or not new:
        return ""
    if old == new:
        return "; the run before was of the same commit: it is not the commit's"
    if not all(c in "0123456789abcdef" for c in old + new):
        return ""
    subjects = _git("log", "--format=%h %s", f"{old}..{new}").splitlines()
    if len(subjects) == 1:
        return f": {harmless(subjects[0], 100)}"
    if not subjects:
        return f"; the run before was of {_short(before)}"
    return f"; one of {len(subjects)} commits, {_short(old)}..{_short(new)}"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=False, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _plot(told: Sequence[Told], out: Path) -> int:
    from pytest_gpuperf.cli.views.history_plot import NoPlotError, draw

    try:
        draw(told, out, _units())
    except NoPlotError as error:
        complain(str(error))
        return USAGE
    return 0
