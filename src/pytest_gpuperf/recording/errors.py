"""What can keep a workload from being recorded."""

from __future__ import annotations

import re
from typing import Any

_MEMORY_TYPES = frozenset({"MemoryError", "OutOfMemoryError"})
_MEMORY_WORDS = re.compile(
    r"out of memory|can(not|'t) allocate memory|not enough memory|bad_alloc|ALLOC_FAILED", re.I
)


class RecordingError(Exception):
    """The workload cannot be measured here: one line that says why and how to mend it."""


class TorchMissingError(RecordingError):
    """torch is not installed; the door turns this into a skip."""


def is_out_of_memory(type_name: str, message: str) -> bool:
    """Whether an exception says that memory ran out: torch's on a CPU are plain RuntimeErrors."""
    return type_name in _MEMORY_TYPES or bool(_MEMORY_WORDS.search(message))


def import_torch() -> Any:
    """The torch module.

    Raises
    ------
    TorchMissingError
        torch is not installed in this environment.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise TorchMissingError(
            "gpuperf measures with torch, which is not installed: pip install pytest-gpuperf[torch]"
        ) from None
    return torch
