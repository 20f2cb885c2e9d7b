"""What is worth measuring: ready workloads with their FLOP and bytes as formulas.

``gpuperf(workloads.matmul(1024, 1024, 1024))`` checks and measures one; see ``docs/how-to``.
Names are imported on first use (PEP 562): describing a workload imports no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Prepared": "workload",
    "UnavailableError": "workload",
    "Workload": "workload",
    "WrongResultError": "workload",
    "attention": "scaled_attention",
    "batch_sweep": "throughput",
    "convolution": "convolutions",
    "copy": "copies",
    "depthwise": "convolutions",
    "elementwise": "elu_forms",
    "host_to_device": "copies",
    "kernel": "user_kernel",
    "matmul": "products",
    "matmul_kernel": "product_kernels",
    "mlp": "layers",
    "pointwise_chain": "pointwise",
    "spin": "one_thread",
    "training_step": "training",
    "transformer_layer": "layers",
}

__all__ = [
    "Prepared",
    "UnavailableError",
    "Workload",
    "WrongResultError",
    "attention",
    "batch_sweep",
    "convolution",
    "copy",
    "depthwise",
    "elementwise",
    "host_to_device",
    "kernel",
    "matmul",
    "matmul_kernel",
    "mlp",
    "pointwise_chain",
    "spin",
    "training_step",
    "transformer_layer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
