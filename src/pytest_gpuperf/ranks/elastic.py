"""The process that starts the ranks: torch's elastic launcher, as ``torchrun`` runs it.

It gives each rank what a script under ``torchrun`` finds: ``RANK``, ``LOCAL_RANK``,
``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``, and a store that outlives rank 0. Time limit,
stacks and clean-up are the supervisor's, a process above this one.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_gpuperf.ranks.files import write_json
from pytest_gpuperf.ranks.lifeline import signal_at_parent_death

BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p];"  # no module of the caller's folder
    "import json, pathlib; request = json.loads(pathlib.Path(sys.argv[1]).read_text());"
    "sys.path[:] = request['sys_path']; from importlib import import_module;"
    "sys.exit(import_module('pytest_gpuperf.ranks.' + sys.argv[2]).main(request))"
)
"""Program text that starts a module of this package with the caller's sys.path."""

STATUSES = "statuses.json"
"""Exit statuses other than 0 as ``[rank, status]``, first seen first; a signal is negative."""

_HERE = "127.0.0.1"  # all ranks are here; a host's name need not resolve
_MONITOR_S = 0.1


def main(request: Mapping[str, Any]) -> int:
    """Run the ranks to their end; the process's exit status comes back."""
    signal_at_parent_death(request["supervisor"], signal.SIGKILL)
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    workdir = Path(request["workdir"])
    for_ranks = workdir / "ranks.json"
    write_json(for_ranks, {**request, "launcher": os.getpid()})
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=request["world_size"],
        run_id=f"gpuperf-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint=f"{_HERE}:0",
        local_addr=_HERE,
        max_restarts=0,  # a rank that failed is the result
        monitor_interval=_MONITOR_S,
        logs_specs=DefaultLogsSpecs(log_dir=str(workdir / "elastic")),
    )
    statuses: list[tuple[int, int]] = []
    try:
        elastic_launch(config, sys.executable)("-c", BOOT, str(for_ranks), "child")
    except ChildFailedError as error:
        statuses = [(rank, failure.exitcode) for rank, failure in error.failures.items()]
    write_json(workdir / STATUSES, statuses)
    return 0
