"""Snapshots of torch's allocator built by hand, in the layouts that its versions write.

Field names and states are those that torch documents for ``torch.cuda.memory._snapshot`` and that
its viewer reads; no GPU is needed for them.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

MIB = 2**20
BASE = 0x7F0000000000


def frame(file: str, line: int, name: str) -> dict[str, Any]:
    return {"filename": file, "line": line, "name": name}


TRAIN = [
    frame("", 0, "c10::cuda::CUDACachingAllocator::malloc(unsigned long)"),
    frame("/venv/torch/nn/functional.py", 10, "linear"),
    frame("/venv/torch/nn/modules/module.py", 1700, "_call_impl"),
    frame("/home/me/net/model.py", 41, "forward"),
]
"""A forward pass: the innermost call of the program's own is ``model.py:41 forward``."""
ADAM = [
    frame("/venv/torch/optim/adam.py", 200, "_init_group"),
    frame("/home/me/net/train.py", 77, "step"),
]
BACKWARD = [
    frame("engine.cpp", 0, "torch::autograd::Engine::evaluate_function"),
    frame("/venv/torch/autograd/graph.py", 800, "_engine_run_backward"),
    frame("/home/me/net/train.py", 76, "step"),
]
SETUP = [
    frame("/venv/torch/nn/modules/linear.py", 100, "__init__"),
    frame("/home/me/net/model.py", 12, "__init__"),
]


def block(size: int, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    return {"size": size, "requested_size": size, "state": state, "frames": [], **more}


def segment(blocks: list[dict[str, Any]], address: int = BASE, **more: Any) -> dict[str, Any]:
    """A segment of `blocks` that follow each other."""
    at, placed = address, []
    for each in blocks:
        placed.append({"address": at, **each})
        at += each["size"]
    live = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
    return {
        "device": 0,
        "address": address,
        "total_size": at - address,
        "allocated_size": live,
        "active_size": live,
        "requested_size": live,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": placed,
        **more,
    }


def event(action: str, addr: int, size: int, frames: Any = (), **more: Any) -> dict[str, Any]:
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "frames": list(frames),
        **more,
    }


def example() -> dict[str, Any]:
    """20 MiB reserved: 10 of the forward, 4 free, 4 of Adam, 2 free; a 6 MiB request failed."""
    held = [
        block(10 * MIB, frames=TRAIN, requested_size=10 * MIB - 100),
        block(4 * MIB, "inactive"),
        block(4 * MIB, frames=ADAM),
        block(2 * MIB, "inactive"),
    ]
    history = [
        event("segment_alloc", BASE, 20 * MIB, time_us=1_000),
        event("alloc", BASE, 10 * MIB, TRAIN, time_us=1_100),
        event("alloc", BASE + 10 * MIB, 4 * MIB, BACKWARD, time_us=1_200),
        event("alloc", BASE + 14 * MIB, 4 * MIB, ADAM, time_us=1_300),
        event("free_requested", BASE + 10 * MIB, 4 * MIB, time_us=1_400),
        event("free_completed", BASE + 10 * MIB, 4 * MIB, time_us=1_401),
        event("oom", 0, 6 * MIB, TRAIN, time_us=1_500, device_free=MIB),
    ]
    return {
        "segments": [segment(held)],
        "device_traces": [history],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1},
        "external_annotations": [],
    }


def written(path: Path, content: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path
