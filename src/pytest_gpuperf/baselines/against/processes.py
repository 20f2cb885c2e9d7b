"""A pair of processes, one of each side, that measure in turns; nothing of them stays behind.

Each leads a session of its own, so that whatever it started ends with it; it holds the end of a
pipe whose other end is this process's, and ends when that is gone, however this process ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from pytest_gpuperf.baselines.against.sides import Side
from pytest_gpuperf.recording.turns import VARIABLE as TURNS

SIDE = "GPUPERF_SIDE"
"""Path of the file that tells a process what it is to do."""
_POLL_S = 0.02
_END_S = 5.0
_LINES = 12


@dataclass(frozen=True, slots=True)
class Told:
    """What one process left: its report, or why there is none."""

    report: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    seconds: float = 0.0


def run_pair(
    sides: Sequence[Side],
    tests: Sequence[str],
    folder: Path,
    *,
    roots: Sequence[Path],
    details: bool,
    timeout_s: float,
) -> dict[str, Told]:
    """Run both sides at once, the first of `sides` with the first turn; what each left, by name.

    Parameters
    ----------
    sides
        In the order of turns.
    tests
        Node ids to measure.
    folder
        An empty folder for what the processes write; its content is the caller's to remove.
    roots
        Roots of the two checkouts.
    details
        Whether the modules that were imported are asked for.
    timeout_s
        After which both are ended.
    """
    began = monotonic()
    to_second, to_first, lifeline = os.pipe(), os.pipe(), os.pipe()
    opened = {*to_second, *to_first, *lifeline}
    ends = ((to_first[0], to_second[1]), (to_second[0], to_first[1]))
    running: list[subprocess.Popen[bytes]] = []
    try:
        for index, side in enumerate(sides):
            order = {
                "tests": list(tests),
                "out": str(folder / f"{side.name}.json"),
                "roots": [str(root) for root in roots],
                "details": details,
                "lifeline": lifeline[0],
            }
            running.append(_start(side, order, folder, ends[index], first=index == 0))
        # What only the processes hold ends with them, so that one notices the other's end.
        for descriptor in opened - {lifeline[1]}:
            os.close(descriptor)
        opened = {lifeline[1]}
        late = _wait(running, began + timeout_s)
        return {
            side.name: _told(side, process, folder, monotonic() - began, late)
            for side, process in zip(sides, running, strict=True)
        }
    finally:
        for process in running:
            _end(process)
        for descriptor in opened:
            os.close(descriptor)


def _start(
    side: Side, order: Mapping[str, Any], folder: Path, ends: tuple[int, int], *, first: bool
) -> subprocess.Popen[bytes]:
    told = folder / f"{side.name}.order.json"
    told.write_text(json.dumps(order), encoding="utf-8")
    inherited = os.environ.get("PYTHONPATH", "")
    path = [*side.module_path, *([inherited] if inherited else [])]
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("PYTEST_CURRENT_TEST", SIDE)},
        SIDE: str(told),
        TURNS: f"{ends[0]},{ends[1]},{int(first)}",
        "PYTHONPATH": os.pathsep.join(path),
        # Each side's bytecode would be written into the user's own tree, by two at once.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    traces = f"--gpuperf-dir={folder / side.name}"
    with (folder / f"{side.name}.log").open("wb") as log:
        return subprocess.Popen(
            [side.python, "-m", "pytest", *side.arguments, traces],
            cwd=side.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(*ends, int(order["lifeline"])),
        )


def _wait(running: Sequence[subprocess.Popen[bytes]], deadline: float) -> bool:
    """Wait for all; True where the time was over before."""
    while any(process.poll() is None for process in running):
        if monotonic() > deadline:
            return True
        sleep(_POLL_S)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it started."""
    for number, patience in ((signal.SIGTERM, _END_S), (signal.SIGKILL, _END_S)):
        if process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
    with contextlib.suppress(OSError):  # those that it left behind
        os.killpg(process.pid, signal.SIGKILL)


def _told(
    side: Side, process: subprocess.Popen[bytes], folder: Path, seconds: float, late: bool
) -> Told:
    if late and process.returncode is None:
        return Told(problem=f"did not end within {seconds:.0f} s", seconds=seconds)
    out = folder / f"{side.name}.json"
    try:
        report = json.loads(out.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Told(problem=_last_words(process, folder / f"{side.name}.log"), seconds=seconds)
    return Told(report=report, seconds=seconds)


def _last_words(process: subprocess.Popen[bytes], log: Path) -> str:
    """Why a process left no report: how it ended, and the line of its output that says most."""
    code = process.returncode
    ended = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit status {code}"
    try:
        lines = log.read_text(encoding="utf-8", errors="backslashreplace").splitlines()
    except OSError:
        lines = []
    said = [line.strip() for line in lines if line.strip()][-_LINES:]
    raised = [s.removeprefix("E ").strip() for s in said if s.startswith("E  ")]
    told = [s for s in said if s.startswith("ERROR")]
    words = (raised or told or said or ["it said nothing"])[-1]
    return f"ended with {ended}: {words}"
