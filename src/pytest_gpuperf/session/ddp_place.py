"""Where this process is among ranks that somebody else started: torchrun, or Slurm's srun."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_FIRST_HOST = re.compile(r"(?P<name>[^,\[]+)(?:\[(?P<number>\d+))?")
_FIRST_PORT, _PORTS = 20000, 10000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process is among those that torchrun, or Slurm itself, started.

    ``local_rank`` and ``local_world_size`` count the ranks of this host. ``address`` is where
    the ranks meet, "" where the environment says so by torch's own names.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    launcher: str = "torchrun"
    address: str = ""


def torchrun_place() -> Place | None:
    """Where torchrun, or srun without it, put this process; None where neither is around it.

    A single task of Slurm is no rank: it starts ranks of its own.
    """
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
    if "TORCHELASTIC_RUN_ID" in os.environ and all(n in os.environ for n in names):
        rank, local_rank, world_size = (int(os.environ[name]) for name in names)
        here = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
        return Place(rank, local_rank, world_size, here)
    return _slurm_place()


def _slurm_place() -> Place | None:
    """The place of one of several tasks of a Slurm step, by the variables that srun sets."""
    env = os.environ
    needed = ("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS")
    if any(name not in env for name in needed) or int(env["SLURM_STEP_NUM_TASKS"]) < 2:
        return None
    world_size = int(env["SLURM_STEP_NUM_TASKS"])
    of_nodes = tasks_of_nodes(env.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = int(env.get("SLURM_NODEID", 0))
    hosts = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    host = env.get("MASTER_ADDR") or first_host(hosts) or "127.0.0.1"
    step = int(env.get("SLURM_JOB_ID", 0)) * 7 + int(env["SLURM_STEP_ID"])
    port = env.get("MASTER_PORT") or str(_FIRST_PORT + step % _PORTS)
    return Place(
        rank=int(env["SLURM_PROCID"]),
        local_rank=int(env["SLURM_LOCALID"]),
        world_size=world_size,
        local_world_size=of_nodes[node] if node < len(of_nodes) else world_size,
        launcher="srun",
        address=f"tcp://{host}:{port}",
    )


def tasks_of_nodes(text: str) -> list[int]:
    """How many tasks each node has: Slurm's ``2(x3),1`` is 2, 2, 2, 1."""
    return [int(found[1]) for found in _TASKS.finditer(text) for _ in range(int(found[2] or 1))]


def first_host(nodes: str) -> str:
    """The first host of Slurm's list: ``node-[07-09,12],other`` begins with ``node-07``."""
    found = _FIRST_HOST.match(nodes.strip())
    return f"{found['name']}{found['number'] or ''}" if found else ""
