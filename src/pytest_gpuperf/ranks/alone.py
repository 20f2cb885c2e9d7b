"""The process that starts a single rank, where there is nobody to meet: no launcher of torch's.

It stands where :mod:`.elastic` does and leaves the same file, but imports no torch, so that one
process starts in half the time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_gpuperf.ranks.elastic import BOOT, STATUSES
from pytest_gpuperf.ranks.files import write_json
from pytest_gpuperf.ranks.lifeline import signal_at_parent_death


def main(request: Mapping[str, Any]) -> int:
    """Run the rank to its end; the process's exit status comes back."""
    signal_at_parent_death(request["supervisor"], signal.SIGKILL)
    workdir = Path(request["workdir"])
    for_rank = workdir / "ranks.json"
    write_json(for_rank, {**request, "launcher": os.getpid()})
    process = subprocess.Popen(
        [sys.executable, "-c", BOOT, str(for_rank), "child"],
        start_new_session=True,
        env={**os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"},
    )
    status = process.wait()
    write_json(workdir / STATUSES, [[0, status]] if status else [])
    return 0
