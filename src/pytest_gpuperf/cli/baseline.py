"""``gpuperf baseline``: what is stored, and what of it is to change."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless
from pytest_gpuperf.cli.inputs import USAGE, complain, whole_number

if TYPE_CHECKING:
    from pytest_gpuperf.baselines.model import Baseline
    from pytest_gpuperf.baselines.store import EnvironmentFile, Store

_FOLDER = "gpuperf-baselines"
_WORK = ".gpuperf"


def run(argv: Sequence[str]) -> int:
    """List, show, prune, update or rename: 0 fine, 2 usage or a file that cannot be used."""
    args = _parser().parse_args(argv)
    from pytest_gpuperf.baselines.document import BaselineError
    from pytest_gpuperf.baselines.store import Store

    folder = Path(args.dir) if args.dir else found_above(_FOLDER)
    store = Store(folder or Path(_FOLDER))
    action: Callable[[argparse.Namespace, Store], int] = args.action
    if args.action is not update and not store.folder.is_dir():
        complain(
            f"{store.folder}: no baselines are kept here: `pytest --gpuperf-save` keeps one, "
            "--dir names another folder"
        )
        return USAGE
    try:
        return action(args, store)
    except BaselineError as error:
        complain(str(error).removeprefix("gpuperf: "))
        return USAGE


def found_above(name: str) -> Path | None:
    """The nearest folder called `name`, here or above; None where there is none."""
    here = Path.cwd()
    return next((p / name for p in (here, *here.parents) if (p / name).is_dir()), None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf baseline",
        allow_abbrev=False,
        description="What earlier runs measured, kept in gpuperf-baselines/<environment>.json.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, action: Callable[..., int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        made.set_defaults(action=action)
        made.add_argument("--dir", metavar="DIR", help="the folder of baselines (the nearest one)")
        return made

    command("list", list_, "every environment and baseline, with its runs and tests")
    one = command("show", show_, "what is stored of each test: counts, medians, their spread")
    one.add_argument("test", nargs="*", metavar="TEST", help="node ids, or patterns with *")
    one.add_argument("--json", action="store_true", help="everything as JSON")
    less = command("prune", prune, "drop runs, tests or whole baselines")
    less.add_argument("--keep", type=whole_number, metavar="N", help="runs to keep of each test")
    less.add_argument(
        "--test", action="append", default=[], metavar="TEST", help="drop tests that match"
    )
    less.add_argument("--dry-run", action="store_true", help="say what would go, and drop nothing")
    more = command(
        "update",
        update,
        "accept what the last run measured, failed tests included, as the new baseline",
    )
    more.add_argument("test", nargs="*", metavar="TEST", help="only these: ids, or patterns with *")
    more.add_argument("--last-run", metavar="FILE", help="the run (.gpuperf/last-run.json.gz)")
    more.add_argument("--add", action="store_true", help="keep the earlier runs beside the new one")
    again = command("rename", rename, "let a test that was renamed keep its baseline")
    again.add_argument("old", metavar="OLD")
    again.add_argument("new", metavar="NEW")
    for made in (one, less, again):
        made.add_argument("--name", metavar="NAME", help="only this baseline (all)")
    more.add_argument("--name", metavar="NAME", default="default", help="of the baseline (default)")
    return parser


def list_(args: argparse.Namespace, store: Store) -> int:  # noqa: ARG001 - one signature
    """A row an environment and baseline."""
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    shown = table("environment", "baseline", "tests", "runs", "last", "commit")
    files = store.every()
    for file in files:
        for name, baseline in sorted(file.baselines.items()):
            last = baseline.runs[-1] if baseline.runs else None
            shown.add_row(
                words(file.path.stem), words(name), words(len({t for t, _ in baseline.entries})),
                words(len(baseline.runs)), words(last.at if last else "-"),
                words((last.commit[:12] if last else "") or "-"),
            )  # fmt: skip
    if not files:
        complain(f"{store.folder}: there is no baseline")
        return USAGE
    emit(make_console(), shown)
    return 0


def show_(args: argparse.Namespace, store: Store) -> int:
    """What is stored of the tests that match."""
    from pytest_gpuperf.cli.views.baseline import print_baseline, shown_json

    picked = [
        (file, name, baseline, [n for n in sorted(baseline.entries) if matches(n[0], args.test)])
        for file in store.every()
        for name, baseline in sorted(file.baselines.items())
        if args.name in (None, name)
    ]
    picked = [p for p in picked if p[3]]
    if not picked:
        complain(f"{store.folder}: nothing matches" if args.test else f"{store.folder}: is empty")
        return USAGE
    if args.json:
        from pytest_gpuperf.cli.json_output import print_json

        print_json({"schema": 1, "baselines": [shown_json(*p) for p in picked]})
        return 0
    for each in picked:
        print_baseline(*each)
    return 0


def prune(args: argparse.Namespace, store: Store) -> int:
    """Drop what was asked for; without anything asked for it is a mistake."""
    if args.keep is None and not args.test and args.name is None:
        complain("baseline prune: say --keep N, --test TEST or --name NAME")
        return USAGE

    def pruned(baseline: Baseline) -> Baseline:
        if args.keep is None and not args.test:
            return baseline.pruned(1, without=frozenset(baseline.entries))
        gone = [n for n in baseline.entries if args.test and matches(n[0], args.test)]
        return baseline.pruned(args.keep or sys.maxsize, without=frozenset(gone))

    return _changed(args, store, pruned)


def rename(args: argparse.Namespace, store: Store) -> int:
    """Move what is stored of one test to another id."""

    def renamed(baseline: Baseline) -> Baseline:
        entries = {
            ((args.new, n[1]) if n[0] == args.old else n): e for n, e in baseline.entries.items()
        }
        return replace(baseline, entries=entries)

    files = [f for f in store.every() for b in f.baselines.values() if _has(b, args.old)]
    if not files:
        complain(f"{store.folder}: there is no {args.old!r}")
        return USAGE
    if any(_has(b, args.new) for f in files for b in f.baselines.values()):
        complain(f"{store.folder}: {args.new!r} has a baseline already: prune it first")
        return USAGE
    return _changed(args, store, renamed)


def _has(baseline: Baseline, test: str) -> bool:
    return any(stored == test for stored, _ in baseline.entries)


def _changed(args: argparse.Namespace, store: Store, change: Callable[[Baseline], Baseline]) -> int:
    """Each baseline in its changed form, and a line for each that differs."""
    from pytest_gpuperf.baselines.files import folder_lock

    dry = getattr(args, "dry_run", False)
    with folder_lock(store.folder):
        for file in store.every():
            after = {
                name: change(b) if args.name in (None, name) else b
                for name, b in file.baselines.items()
            }
            lines = _differences(file, after)
            if lines and not dry:
                store.change(file.path, after)
            for line in lines:
                sys.stdout.write(f"{harmless(line, 400)}\n")
    if dry:
        sys.stdout.write("nothing was changed (--dry-run)\n")
    return 0


def _differences(file: EnvironmentFile, after: dict[str, Baseline]) -> list[str]:
    lines = []
    for name, before in sorted(file.baselines.items()):
        now = after[name]
        gone = [n for n in before.entries if n not in now.entries]
        new = [n for n in now.entries if n not in before.entries]
        runs = sum(len(e.runs) for e in before.entries.values())
        left = sum(len(e.runs) for e in now.entries.values())
        if gone or new or runs != left:
            counts = f"{len(before.entries)} → {len(now.entries)} measurements"
            lines.append(f"{file.path.name}, {name}: {counts}, {runs} → {left} of their runs")
    return lines


def update(args: argparse.Namespace, store: Store) -> int:
    """Accept the last run's measurements."""
    from pytest_gpuperf.baselines.last_run import FILE, read

    work = found_above(_WORK)
    source = Path(args.last_run) if args.last_run else (work or Path(_WORK)) / FILE
    if not args.dir and not store.folder.is_dir():
        store.folder = source.parent.parent / _FOLDER  # where pytest would have made it
    found = read(source)
    observed = [o for o in (*found.passed, *found.failed) if matches(o.test, args.test)]
    if not observed:
        complain(f"{source}: no measurement of the last run matches")
        return USAGE
    saved = store.save(observed, name=args.name, anew=not args.add)
    for path, number, count in saved:
        what = "1 measurement" if count == 1 else f"{count} measurements"
        sys.stdout.write(f"{path}: run {number} of {args.name!r} has {what} of the last run\n")
    return 0


def matches(test: str, patterns: Sequence[str]) -> bool:
    """Whether `test` is one of `patterns`, matches one, or there are none.

    An id with brackets is taken literally first: to a pattern they would be a set of characters.
    """
    if not patterns:
        return True
    return any(
        test == p or test.startswith(f"{p}::") or fnmatch.fnmatchcase(test, p.replace("[", "[[]"))
        for p in patterns
    )
