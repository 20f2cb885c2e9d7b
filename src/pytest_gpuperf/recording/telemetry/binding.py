"""The NVML binding, and what its error codes mean to a sampler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def binding() -> Any:
    """The NVML binding (``nvidia-ml-py``); imported only where a sample is taken."""
    import pynvml

    return pynvml


@contextmanager
def initialized(nvml: Any) -> Iterator[None]:
    """NVML between its init and shutdown; NVMLError where there is no driver."""
    nvml.nvmlInit()
    try:
        yield
    finally:
        # The GPU may have been lost in between: then there is nothing left to shut down.
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def driver_version() -> str:
    """Version of the NVIDIA driver, "" where there is none."""
    nvml = binding()
    try:
        with initialized(nvml):
            return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return ""


def is_fatal(nvml: Any, error: Exception) -> bool:
    """Whether nothing more can be asked of the device: it is gone, or NVML is."""
    fatal = (
        nvml.NVML_ERROR_GPU_IS_LOST,
        nvml.NVML_ERROR_UNINITIALIZED,
        nvml.NVML_ERROR_RESET_REQUIRED,
    )
    return getattr(error, "value", None) in fatal


def is_lasting(nvml: Any, error: Exception) -> bool:
    """Whether the next call would fail in the same way: asking once is enough."""
    if isinstance(error, AttributeError):  # the binding is older than the function
        return True
    lasting = (
        nvml.NVML_ERROR_NOT_SUPPORTED,
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        nvml.NVML_ERROR_NO_PERMISSION,
        nvml.NVML_ERROR_INVALID_ARGUMENT,
        nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    )
    return getattr(error, "value", None) in lasting


def reason_of(error: Exception) -> str:
    """Why a counter is absent, in NVML's words."""
    if isinstance(error, AttributeError):
        return "the NVML binding is too old for it: update nvidia-ml-py"
    return f"NVML says: {error}"
