"""Bytes of the tensors that are alive, by storage."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch


def alive_bytes(device: torch.device) -> int:
    """Bytes held on `device` now.

    On a GPU the allocator knows. On a CPU no one does, so Python's tensors are walked and each
    storage is counted once, whatever the number of views. Missed: tensors that only C++ holds
    (what autograd saved for a backward pass still to come), tensors in objects that the program
    put out of the collector's reach (``gc.freeze``), and memory that is no tensor.
    """
    torch = import_torch()
    # Tensors in dead reference cycles are garbage, not alive.
    gc.collect()
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    storages: dict[int, int] = {}
    for tensor in objects_of(torch.Tensor):
        _add(torch, tensor, storages)
    return sum(storages.values())


def objects_of(kind: type) -> list[Any]:
    """Every object of `kind` or a subclass that the collector knows."""
    return objects_by_kind(kind)[0]


def objects_by_kind(*kinds: type) -> list[list[Any]]:
    """For each of `kinds` what :func:`objects_of` gives, in one walk."""
    objects = gc.get_objects()
    # By type and not by isinstance, which would run the __class__ of proxies and lazy modules.
    types = set(map(type, objects))
    of_kind = [{each for each in types if issubclass(each, kind)} for kind in kinds]
    some = set().union(*of_kind)
    picked = [found for found in objects if type(found) in some]
    return [[found for found in picked if type(found) in wanted] for wanted in of_kind]


def _add(torch: Any, tensor: Any, storages: dict[int, int]) -> None:
    """Note the storages of `tensor` and of its gradient, if they are in main memory."""
    try:
        if tensor.device.type != "cpu":
            return
        for part in dense_parts(torch, tensor):
            storage = part.untyped_storage()
            # A fake tensor says cpu, but what stands behind it does not.
            if storage.device.type == "cpu":
                storages[storage.data_ptr()] = storage.nbytes()
        # A gradient has no Python object of its own until someone asks for it.
        gradient = tensor.grad if tensor.is_leaf else None
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        # Fake, functional, half-built and uninitialized tensors hold no memory and say so, each
        # in its own way.
        return
    if gradient is not None and gradient is not tensor:
        _add(torch, gradient, storages)


def dense_parts(torch: Any, tensor: Any) -> tuple[Any, ...]:
    """The tensors with storage that make up `tensor`."""
    if tensor.layout == torch.sparse_coo:
        return (tensor._indices(), tensor._values())  # noqa: SLF001 - the public ones need coalescing
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    return (tensor,)
