"""NVML, where the driver is there."""

from __future__ import annotations


def driver_version() -> str:
    """Version of the NVIDIA driver, "" where there is none."""
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return ""
