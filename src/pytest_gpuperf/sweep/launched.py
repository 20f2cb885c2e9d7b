"""A point whose ranks torchrun, srun or another launcher starts, on this machine or on several.

:func:`run_launcher` runs under the supervisor of :mod:`pytest_gpuperf.ranks`, so that the launcher
ends with the sweep; :func:`main` is the program of each rank. They speak through one line of rank
0's output, so that hosts need no common folder for it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pytest_gpuperf.ranks import RankContext
from pytest_gpuperf.sweep.child import REFUSED, limit_memory, loaded
from pytest_gpuperf.sweep.failure import CRASH, NOT_RUN, one_line, oom_kills, why_failed

_MARK = "gpuperf-sweep-point "
_OWN = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
OVERTIME_S = 60.0
"""How much longer than the ranks the launcher may take: they tell themselves who hangs."""


def run_launcher(context: RankContext, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the point's result, as rank 0 of the launcher's ranks told them."""
    world_size = str(payload["request"]["world_size"])
    command = [part.replace("{world_size}", world_size) for part in payload["command"]]
    request = {**payload["request"], "workdir": str(context.workdir)}
    text = base64.b64encode(json.dumps(request).encode()).decode()
    try:
        ended = subprocess.run(
            [*command, sys.executable, "-m", __name__, text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
            env={k: v for k, v in os.environ.items() if k not in _OWN},
        )
    except OSError as error:
        return {REFUSED: f"--launcher {command[0]}: {error.strerror or error}"}
    for line in ended.stdout.splitlines():
        # A launcher may put the rank before the line.
        _, mark, told = line.partition(_MARK)
        if mark:
            found: dict[str, Any] = json.loads(base64.b64decode(told.split()[0]))
            return found
    sys.stdout.write(ended.stdout[-4000:])
    detail = f"{command[0]} ended with status {ended.returncode} and no result of rank 0"
    return {"status": CRASH, "detail": one_line(detail)}


def main(text: str) -> int:
    """Measure as one of the launcher's ranks; rank 0 writes the point's fields."""
    from pytest_gpuperf.session.ddp_joined import torchrun_place

    request = json.loads(base64.b64decode(text))
    place = torchrun_place()
    if place is None:
        found = {REFUSED: "--launcher started no ranks: neither torchrun's variables nor srun's"}
    else:
        found = _found(request)
    if place is None or place.rank == 0:
        told = base64.b64encode(json.dumps(found).encode()).decode()
        sys.stdout.write(f"{_MARK}{told}\n")
        sys.stdout.flush()
    return 0


def _found(request: Mapping[str, Any]) -> dict[str, Any]:
    from pytest_gpuperf.recording import Options, RecordingError
    from pytest_gpuperf.session.ddp import measure_ddp
    from pytest_gpuperf.session.ddp_failure import RankFailure
    from pytest_gpuperf.sweep.points import numbers

    limit_memory(request["memory_limit"], request["device"])
    values, world_size = request["values"], request["world_size"]
    make_step, why = loaded(request["target"], {**values, "rank": 0, "world_size": world_size})
    if make_step is None:
        return {REFUSED: one_line(why)}
    kills = oom_kills()
    with _folder(request["workdir"]) as folder:
        try:
            outcome = measure_ddp(
                partial(make_step, **values),
                world_size,
                backend=request["backend"],
                options=Options(**request["options"]),
                device=request["device"],
                trace_dir=folder / "traces",  # stacks of ranks that hang go beside it
                stem="point",
                timeout_s=request["timeout_s"],
            )
        except RankFailure as failure:
            if not failure.outcomes:
                return {"status": CRASH, "detail": one_line(str(failure))}
            status, detail, stack = why_failed(failure.outcomes, request["timeout_s"], kills)
            return {"status": status, "detail": detail, "stack": stack}
        except (ValueError, RecordingError) as error:
            return {"status": NOT_RUN, "detail": one_line(str(error))}
        if not outcome.reporter:
            return {}
        measured = numbers(outcome.trace_paths)
        return {**measured, "notes": list(dict.fromkeys([*outcome.notes, *measured["notes"]]))}


@contextmanager
def _folder(workdir: str) -> Iterator[Path]:
    """A folder of this rank; on the sweep's machine in one that goes even if the rank is killed."""
    parent = workdir if os.access(workdir, os.W_OK) else None
    with tempfile.TemporaryDirectory(
        prefix="gpuperf-point-", dir=parent, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
