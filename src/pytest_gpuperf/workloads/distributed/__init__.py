"""Workloads of several ranks: each is a ``make_step(rank, world_size)`` for ``gpuperf.ddp``.

Every one works as it stands and takes its sizes as keywords, bound by ``functools.partial`` or in
a ``make_step`` of one's own. Names are imported on first use (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "COLLECTIVES": "collective_calls",
    "collective": "collective_calls",
    "data_parallel": "replicated",
    "fully_sharded": "sharded",
    "scaled_product": "known_gradient",
    "scaled_product_gradient": "known_gradient",
    "sharded_linears": "sharded",
    "sharded_product": "known_gradient",
    "three_linears": "linear_layers",
    "three_linears_flops": "linear_layers",
    "three_linears_gradient_bytes": "linear_layers",
}

__all__ = [
    "COLLECTIVES",
    "collective",
    "data_parallel",
    "fully_sharded",
    "scaled_product",
    "scaled_product_gradient",
    "sharded_linears",
    "sharded_product",
    "three_linears",
    "three_linears_flops",
    "three_linears_gradient_bytes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
