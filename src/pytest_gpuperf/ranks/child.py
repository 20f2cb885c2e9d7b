"""The program of one rank: load the function, call it, leave its value or its exception."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_gpuperf.ranks.files import RankFiles, write_json
from pytest_gpuperf.ranks.lifeline import end_group_at_eof, signal_at_parent_death
from pytest_gpuperf.ranks.outcome import RankContext, ToldError
from pytest_gpuperf.ranks.progress import Progress
from pytest_gpuperf.ranks.target import Target

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_TEXT_LIMIT = 32 * 1024
_EXIT_GRACE_S = 3.0
"""How long a rank that has left its value may take to end."""


def main(request: Mapping[str, Any]) -> int:
    """Run the rank that the launcher started us as; the process's exit status comes back."""
    rank = int(os.environ["RANK"])
    files = RankFiles.of(Path(request["workdir"]), rank)
    _write_to(files.output)
    signal_at_parent_death(request["launcher"], signal.SIGKILL)
    lifeline = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    end_group_at_eof(lifeline)
    _dump_stacks_on_signal(files.stacks)
    context = RankContext(
        rank=rank,
        world_size=request["world_size"],
        workdir=Path(request["workdir"]),
        timeout_s=request["timeout_s"],
        progress=Progress(files.progress),
    )
    write_json(files.pid, os.getpid())  # from here on our stacks can be asked for
    try:
        context.progress.stage("loading its function")
        function = Target.from_json(request["target"]).load()
        value = function(context, request["payload"])
        write_json(files.result, {"value": value})
    except BaseException as error:  # noqa: BLE001 - it is the rank's outcome
        write_json(files.result, {"error": describe(error)})
        sys.stdout.flush()
        sys.stderr.flush()
        _wait_for_the_end()
    context.progress.stage("ending")
    _end()
    return 0


def _write_to(path: Path) -> None:
    """Send our output to `path`, appending, so that it can be cut under us."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)


def _wait_for_the_end() -> None:
    """Stay until the supervisor ends every rank.

    If we ended, torch's launcher would end the others at once, and the one that is the cause of
    our error could not tell its own any more. Neither threads nor exit handlers that wait for a
    group that is broken get a turn.
    """
    while True:
        time.sleep(3600.0)


def _end() -> None:
    """End as the interpreter does, but for its tear-down: threads, exit handlers, output.

    The tear-down of torch's C++ threads may abort the process (after FSDP on gloo it does), and
    torch's launcher would end the ranks that are about to leave their value. What is called is
    what the standard library's own multiprocessing calls at a process's end.
    """

    def end() -> None:
        time.sleep(_EXIT_GRACE_S)
        os._exit(0)

    threading.Thread(target=end, name="gpuperf-end", daemon=True).start()
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _dump_stacks_on_signal(path: Path) -> None:
    """Have SIGUSR1 and every fault write the stacks of all threads to `path`."""
    file = path.open("w")
    file.write(f"main thread 0x{threading.main_thread().ident:016x}\n")
    file.flush()
    faulthandler.enable(file)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file, all_threads=True)


def describe(error: BaseException) -> dict[str, str]:
    """An exception as the fields of a RankError."""
    if isinstance(error, ToldError):
        return {"type": "", "message": str(error)[:_TEXT_LIMIT], "traceback": "", "at": ""}
    frames = traceback.extract_tb(_without_ours(error.__traceback__))
    text = "".join(
        traceback.format_exception(type(error), error, _without_ours(error.__traceback__))
    )
    if len(text) > _TEXT_LIMIT:
        text = f"{text[: _TEXT_LIMIT // 2]}\n[…]\n{text[-_TEXT_LIMIT // 2 :]}"
    return {
        "type": type(error).__name__,
        "message": str(error)[:_TEXT_LIMIT],
        "traceback": text,
        "at": f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "",
    }


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not of this package; the whole where none is."""
    rest = trace
    while rest is not None:
        file = rest.tb_frame.f_code.co_filename
        if not file.startswith(_PACKAGE) and not file.startswith("<frozen importlib"):
            return rest
        rest = rest.tb_next
    return trace
