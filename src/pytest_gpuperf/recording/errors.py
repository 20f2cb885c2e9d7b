"""What can keep a workload from being recorded."""

from __future__ import annotations

from typing import Any


class RecordingError(Exception):
    """The workload cannot be measured here: one line that says why and how to mend it."""


class TorchMissingError(RecordingError):
    """torch is not installed; the door turns this into a skip."""


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
