"""Traces of ranks on other hosts, brought to rank 0, which reads them all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.session.ddp_child import GroupCoordinator


def bring_to_rank_0(paths: Sequence[Path], coordinator: GroupCoordinator) -> None:
    """Have every one of `paths`, a file of each rank, on rank 0's host; called by all ranks.

    What rank 0 sees already, its own host's or in a shared folder, stays where it is.
    """
    import torch
    import torch.distributed as dist

    absent = torch.tensor([not path.exists() for path in paths], dtype=torch.uint8)
    dist.broadcast(absent, src=0, group=coordinator.group)
    for rank in absent.nonzero().flatten().tolist():
        if coordinator.rank == rank:
            content = _read(paths[rank])
            dist.send(torch.tensor([content.numel()]), dst=0, group=coordinator.group)
            dist.send(content, dst=0, group=coordinator.group)
        elif coordinator.rank == 0:
            size = torch.empty(1, dtype=torch.int64)
            dist.recv(size, src=rank, group=coordinator.group)
            content = torch.empty(int(size), dtype=torch.uint8)
            dist.recv(content, src=rank, group=coordinator.group)
            _write(paths[rank], content)
    coordinator.barrier()


def _read(path: Path) -> torch.Tensor:
    import torch

    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)


def _write(path: Path, content: torch.Tensor) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_bytes(content.numpy().tobytes())
    partial.replace(path)
