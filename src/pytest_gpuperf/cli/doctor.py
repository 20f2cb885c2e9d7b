"""``gpuperf doctor``: whether this machine can measure, and how to mend what it cannot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuperf_analyzers.display import harmless
from pytest_gpuperf.cli.inputs import USAGE, complain
from pytest_gpuperf.cli.json_output import print_json

_LONGEST_TEXT = 1 << 20


def run(argv: Sequence[str]) -> int:
    """Print the checks: 0 where nothing failed, 1 where something did, 2 for wrong usage."""
    args = _parser().parse_args(argv)
    if args.explain is not None:
        return _explain(args.explain)
    from pytest_gpuperf.doctor.checks import run_checks
    from pytest_gpuperf.doctor.driver import ask_driver
    from pytest_gpuperf.doctor.facts import Facts
    from pytest_gpuperf.doctor.machine import Machine
    from pytest_gpuperf.doctor.model import exit_status
    from pytest_gpuperf.doctor.torch_facts import TorchFacts, ask_torch

    work = Path(args.dir)
    while not work.exists() and work != work.parent:
        work = work.parent
    torch = TorchFacts(error="ModuleNotFoundError: not asked") if args.quick else ask_torch()
    checks = tuple(run_checks(Facts(Machine(work=work), ask_driver(), torch)))
    status = exit_status(checks, strict=args.strict)
    if args.json:
        print_json({"schema": 1, "status": status, "checks": [c.to_json() for c in checks]})
        return status
    from pytest_gpuperf.cli.console import emit, make_console, words

    console = make_console()
    styles = {"ok": "green", "skip": "dim", "note": "", "warn": "yellow", "fail": "bold red"}
    for check in checks:
        label = check.status.value
        emit(console, words(f"{label:<5} {check.name}: {check.found}", styles[label]))
        if check.mend:
            emit(console, words(f"      mend: {check.mend}"))
    bad = sum(check.status.value in ("warn", "fail") for check in checks)
    told = "this machine can measure" if not status else "this machine cannot measure as it is"
    emit(console, words(""))
    emit(console, words(f"{told}; {bad} of {len(checks)} checks need a look"))
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf doctor",
        allow_abbrev=False,
        description="Whether this machine can measure, and how to mend what it cannot. "
        "Exit status 0: nothing failed; 1: something did; 2: wrong usage.",
    )
    parser.add_argument("--json", action="store_true", help="the checks as JSON")
    parser.add_argument("--strict", action="store_true", help="exit 1 on warnings too")
    parser.add_argument(
        "--quick", action="store_true", help="leave torch and the self-test out (they take seconds)"
    )
    parser.add_argument(
        "--dir", default=".gpuperf", metavar="PATH", help="where traces go (default %(default)s)"
    )
    parser.add_argument(
        "--explain",
        metavar="TEXT",
        help="what an error message of Docker, the driver or NCCL means ('-' reads it from the "
        "standard input)",
    )
    return parser


def _explain(text: str) -> int:
    from pytest_gpuperf.doctor.known_errors import explain

    said = sys.stdin.read(_LONGEST_TEXT) if text == "-" else text
    found = explain(said)
    if not found:
        complain(f"not an error that is known here: {harmless(said, 120)}")
        return USAGE
    for known in found:
        sys.stdout.write(f"cause: {known.cause}\nmend:  {known.mend}\n")
    return 0
