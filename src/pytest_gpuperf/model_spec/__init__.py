"""An ``nn.Module`` as a torch-free list of operations, without allocating its tensors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "ModelSpecError": "pytest_gpuperf.model_spec.making",
    "model_spec": "pytest_gpuperf.model_spec.making",
}

__all__ = ["ModelSpecError", "model_spec"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
