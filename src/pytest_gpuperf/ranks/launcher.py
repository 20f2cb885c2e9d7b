"""The caller's side: ask for ranks, wait, and get their outcomes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_gpuperf.ranks.elastic import BOOT
from pytest_gpuperf.ranks.files import RankFiles, read_json, tail, write_json
from pytest_gpuperf.ranks.lifeline import kill_group
from pytest_gpuperf.ranks.outcome import RankOutcome
from pytest_gpuperf.ranks.progress import read_progress
from pytest_gpuperf.ranks.supervisor import AGENT, OUTCOMES
from pytest_gpuperf.ranks.target import Target
from pytest_gpuperf.recording.watching import tell_of_ranks, watched

_OVERTIME_S = 20.0
"""What the supervisor may take beyond the time limit, to gather stacks and to clean up."""
_CANCEL_S = 10.0
_LOOK_S = 0.5


class LaunchError(RuntimeError):
    """The ranks could not be supervised at all; what the supervisor said is in the message."""


def launch(
    target: Target,
    world_size: int,
    *,
    payload: Mapping[str, Any],
    timeout_s: float,
    workdir: Path,
    env: Mapping[str, str | None] | None = None,
    alone: bool = False,
    started: Callable[[int], None] = lambda _: None,
) -> list[RankOutcome]:
    """Call ``target(context, payload)`` in `world_size` processes; one outcome a rank.

    Returns when every rank and everything that a rank started has ended, whichever way. An
    exception here (Ctrl-C) ends them as well, and so does the death of this process.

    Parameters
    ----------
    target
        A function of a :class:`RankContext` and the payload that returns JSON types.
    world_size
        How many processes; torch's elastic launcher starts them, so that each finds what a
        script under ``torchrun`` does.
    payload
        JSON types, handed to every rank.
    timeout_s
        Time limit in seconds from now until the last rank ends.
    workdir
        An empty folder for the launch's files; removed if this process dies meanwhile.
    env
        Changes to the environment; None unsets.
    alone
        A single rank that meets nobody: it is started without torch's launcher.
    started
        Told the id of the process above the ranks; SIGTERM to it ends them all.

    Raises
    ------
    ValueError
        `world_size` or `timeout_s` is not positive, or several ranks are to be alone.
    TypeError
        The payload is not made of JSON types.
    LaunchError
        The supervising process failed.
    """
    if world_size < 1:
        raise ValueError(f"world_size is {world_size}: at least one rank is needed")
    if not timeout_s > 0:
        raise ValueError(f"timeout is {timeout_s} s: it must be positive")
    if alone and world_size != 1:
        raise ValueError(f"{world_size} ranks cannot be alone")
    request = workdir / "launch.json"
    write_json(
        request,
        {
            "parent": os.getpid(),
            "workdir": str(workdir.resolve()),
            "world_size": world_size,
            "timeout_s": timeout_s,
            "sys_path": _absolute(sys.path),
            "target": target.to_json(),
            "agent": "alone" if alone else "elastic",
            "payload": dict(payload),
        },
    )
    said = workdir / "supervisor.txt"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", BOOT, str(request), "supervisor"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=_environment(env or {}),
        )
    try:
        started(process.pid)
        _wait(process, timeout_s + _OVERTIME_S, RankFiles.of(workdir, 0).progress, world_size)
    except subprocess.TimeoutExpired:
        raise LaunchError("the process that supervises the ranks does not answer") from None
    finally:
        _end(process, workdir, world_size)
    outcomes = read_json(workdir / OUTCOMES)
    if outcomes is None:
        raise LaunchError(
            f"the process that supervises the ranks ended with status {process.returncode}"
            f" and no outcome: {tail(said, 2000).strip() or 'it said nothing'}"
        )
    return [RankOutcome.from_json(raw) for raw in outcomes]


def _wait(
    process: subprocess.Popen[bytes], limit_s: float, progress: Path, world_size: int
) -> None:
    """Wait for the end of `process`, and tell who watches what rank 0 does meanwhile.

    Raises
    ------
    subprocess.TimeoutExpired
        It has not ended after `limit_s`.
    """
    if not watched():
        process.wait(limit_s)
        return
    begin = time.monotonic()
    while (spent_s := time.monotonic() - begin) < limit_s:
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(_LOOK_S, limit_s - spent_s))
            return
        stage, _, done = read_progress(progress)
        ranks = "1 rank" if world_size == 1 else f"{world_size} ranks"
        tell_of_ranks(f"{ranks} {stage or 'starting'}", done, spent_s, limit_s - _OVERTIME_S)
    raise subprocess.TimeoutExpired(process.args, limit_s)


def _end(process: subprocess.Popen[bytes], workdir: Path, world_size: int) -> None:
    """Have the supervisor clean up if it still runs; clean up for it if it cannot."""
    if process.stdin is not None:
        process.stdin.close()  # it reads the end of the file and ends every rank
    try:
        process.wait(_CANCEL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode < 0:
        files = [workdir / AGENT, *(RankFiles.of(workdir, r).pid for r in range(world_size))]
        for file in files:
            with suppress(ValueError, TypeError):
                kill_group(int(read_json(file)))


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Our environment with `changes`, and without a surrounding launcher's view of the ranks."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TORCHELASTIC_")}
    for name, value in changes.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = value
    return kept


def _absolute(paths: list[str]) -> list[str]:
    """`paths` that mean the same from another folder."""
    return [str(Path(p).absolute()) for p in paths]
