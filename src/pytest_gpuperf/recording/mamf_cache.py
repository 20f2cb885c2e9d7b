"""The measured maximum matmul FLOPS of this machine, where ``gpuperf mamf`` has found it before.

One JSON file a device, dtype and torch version (on a CPU the number of threads too) in the user's
cache directory. Written by :mod:`pytest_gpuperf.mamf.store`; read wherever a share of it is wanted.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.live_values import MAMF_DTYPES, no_maximum
from pytest_gpuperf.recording.cpu_peak import cache_directory, machine_key
from pytest_gpuperf.recording.devices import device_title
from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

DTYPES = MAMF_DTYPES
"""Dtypes that ``gpuperf mamf`` measures."""
_FOLDER = "mamf"
_PLAIN = 60
_DIGEST = 10


@dataclass(frozen=True, slots=True)
class CachedMamf:
    """The maximum found for one device, dtype and torch version.

    Attributes
    ----------
    dtype
        One of :data:`DTYPES`.
    machine
        Device and torch version that it holds for; on a CPU the threads too.
    tflops
        2·M·N·K over the median time of a call of the best shape, 1e12 a second.
    shape
        M, N and K of that shape; K is reduced.
    shapes, timed
        Shapes of the grid that was searched, and how many of them were timed.
    searched
        The grid in words.
    """

    dtype: str
    machine: str
    tflops: float
    shape: tuple[int, int, int]
    shapes: int
    timed: int
    searched: str

    @property
    def words(self) -> str:
        """The maximum and where it was found, in one line."""
        at = "x".join(map(str, self.shape))
        return (
            f"{self.tflops:.4g} TFLOPS measured at {at} (MxNxK), the best of {self.timed:,} timed "
            f"of {self.shapes:,} shapes"
        )


def mamf_machine(device: torch.device) -> str:
    """What a maximum belongs to: the device's name and torch's version; a CPU's threads too."""
    torch = import_torch()
    if device.type != "cuda":
        return machine_key(torch.get_num_threads())
    return f"{device_title(device)} | torch {torch.__version__}"


def mamf_path(machine: str, dtype: str) -> Path:
    """The file of `machine` and `dtype`, whether it is there or not."""
    key = f"{machine} | {dtype}"
    plain = re.sub(r"[^\w.+-]+", "-", key, flags=re.ASCII).strip("-.")[:_PLAIN]
    digest = hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST]
    return cache_directory() / _FOLDER / f"{plain}-{digest}.json"


def cached_mamf(device: torch.device, dtype: str) -> CachedMamf | None:
    """The maximum kept for `device` and `dtype`; None where there is none that can be read."""
    machine = mamf_machine(device)
    return read_cached(mamf_path(machine, dtype), machine, dtype)


def read_cached(path: Path, machine: str, dtype: str) -> CachedMamf | None:
    """What the file holds; None where it is not there, damaged, or of something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        m, n, k = map(_count, found["shape"])
        kept = CachedMamf(
            dtype=str(found["dtype"]),
            machine=str(found["machine"]),
            tflops=float(found["tflops"]),
            shape=(m, n, k),
            shapes=_count(found["shapes"]),
            timed=_count(found["timed"]),
            searched=str(found["searched"]),
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    right = kept.machine == machine and kept.dtype == dtype
    return kept if right and math.isfinite(kept.tflops) and kept.tflops > 0 else None


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is not a count")
    return value


def known_maxima(
    device: torch.device, dtypes: Iterable[str]
) -> tuple[dict[str, float], dict[str, str]]:
    """TFLOPS, and where each was found, of those of `dtypes` that have a cached maximum."""
    found = {d: kept for d in dtypes if d in DTYPES and (kept := cached_mamf(device, d))}
    return {d: k.tflops for d, k in found.items()}, {d: k.words for d, k in found.items()}


def mamf_command(device: torch.device, dtype: str) -> str:
    """Why there is no maximum for `device` and `dtype`, and the command that measures it."""
    threads = import_torch().get_num_threads() if device.type == "cpu" else None
    return no_maximum(device_title(device), str(device.type), dtype, threads)
