"""Where the ranks of ``gpuperf.ddp`` run: backend, device, threads, environment."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from pytest_gpuperf.recording.capacity import host_capacity

RANK_BYTES = 100 * 2**20
"""Memory of a rank that it shares with nobody, at the least: torch 2.13 for the CPU with a gloo
group of one keeps 145 MiB for itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the ranks run: backend, device type, GPUs here, and what to tell about it."""

    backend: str
    device_type: str
    gpus: int
    notes: tuple[str, ...] = ()


def plan_ranks(backend: str, device: str, world_size: int) -> Plan:
    """Backend and device type for `world_size` ranks of a test whose device is `device`.

    Raises
    ------
    ValueError
        Unknown backend, or NCCL asked for where there are not as many GPUs as ranks.
    """
    if backend not in ("auto", "gloo", "nccl"):
        raise ValueError(f"gpuperf.ddp: backend must be 'auto', 'gloo' or 'nccl', not {backend!r}")
    if device.partition(":")[0] != "cuda":
        if backend == "nccl":
            raise ValueError(
                f"gpuperf.ddp: backend 'nccl' needs GPUs, but this test's device is {device}"
            )
        return Plan("gloo", "cpu", 0)
    import torch

    gpus = torch.cuda.device_count()
    if backend == "nccl" and gpus < world_size:
        raise ValueError(
            f"gpuperf.ddp: backend 'nccl' needs a GPU a rank; {world_size} ranks, {gpus} GPUs here"
        )
    if gpus >= world_size:
        return Plan("gloo" if backend == "gloo" else "nccl", "cuda", gpus)
    if backend == "gloo":
        note = f"{world_size} ranks shared {gpus} GPUs"
        return Plan("gloo", "cuda", gpus, (note,))
    note = f"ran on cpu with gloo: {world_size} ranks, but {gpus} GPUs here"
    return Plan("gloo", "cpu", 0, (note,))


def check_startable(world_size: int) -> None:
    """Refuse more ranks than this machine could ever hold at once.

    Raises
    ------
    ValueError
        Their processes alone would take more than its memory.
    """
    size, source = host_capacity()
    most = max(1, size // RANK_BYTES)
    if world_size > most:
        raise ValueError(
            f"gpuperf.ddp: {world_size:,} ranks cannot be started here: at {RANK_BYTES >> 20} MiB "
            f"a process, the least that one with torch takes, {source} ({size / 2**30:.1f} GiB) "
            f"holds {most:,}; on several hosts start them by torchrun or srun"
        )


def threads_per_rank(world_size: int) -> int:
    """CPU threads for each of `world_size` ranks: the cores we may use, shared out, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) // world_size)


def rank_environment(plan: Plan, threads: int) -> dict[str, str | None]:
    """What the ranks' environment has that ours has not."""
    env: dict[str, str | None] = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "MASTER_ADDR": None,  # torch's launcher sets its own
        "MASTER_PORT": None,
    }
    if sys.platform == "linux" and "GLOO_SOCKET_IFNAME" not in os.environ:
        env["GLOO_SOCKET_IFNAME"] = "lo"  # all ranks are here; a host's name need not resolve
    if plan.device_type == "cpu":
        env["CUDA_VISIBLE_DEVICES"] = ""  # make_step that asks torch sees what the ranks run on
    return env
