"""Where a measurement was made: versions, device, processor, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.devices import device_title
from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

_GIT_TIMEOUT_S = 5


def environment(device: torch.device | None = None) -> dict[str, str]:
    """What must be equal for two measurements to be comparable; only what is known is there.

    Keys: ``python``, ``torch``, ``cuda``, ``hip``, ``cudnn``, ``driver``, ``device``,
    ``cpu_model``, ``cores`` (usable by this process), ``threads`` (torch's), ``platform``,
    ``commit`` (with ``+dirty`` where tracked files differ from it); of a GPU ``power_limit`` and
    ``clocks``.
    """
    torch = import_torch()
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "driver": driver_version(),
        "cpu_model": cpu_model(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "commit": commit(),
    }
    if device is not None:
        found["device"] = device_title(device)
        if device.type == "cuda":
            from pytest_gpuperf.recording.telemetry.policy import policy_of

            found |= policy_of(device)
        if device.type == "cuda" and torch.backends.cudnn.is_available():
            found["cudnn"] = torch.backends.cudnn.version()
    return {key: str(value) for key, value in found.items() if value}


def cpu_model() -> str:
    """The processor's model name, or the architecture where the system does not tell."""
    try:
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            key, _, value = line.partition(":")
            if key.strip() in {"model name", "Model"}:
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def driver_version() -> str:
    """Version of the NVIDIA driver, "" where there is none."""
    from pytest_gpuperf.recording.telemetry.binding import driver_version as ask

    return ask()


def commit(folder: Path | None = None) -> str:
    """The git commit of `folder` (by default the working directory), "" outside a repository."""
    head = _git(folder, "rev-parse", "HEAD")
    if not head:
        return ""
    return head + ("+dirty" if _git(folder, "status", "--porcelain", "-uno") else "")


def _git(folder: Path | None, *args: str) -> str:
    """Output of a git command, "" where git is missing, fails or takes too long."""
    try:
        done = subprocess.run(
            ["git", *args],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
