"""One measurement at a time on a device, whichever process makes it.

Parallel test workers run their tests side by side, but what is being timed must have the device
to itself. The lock is a file named after the device, in a folder of this user's.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from filelock import FileLock

_kept: dict[str, FileLock] = {}
"""Locks that rank 0 of a surrounding torchrun has until it ends."""
_here = threading.Lock()
"""Held while this process measures."""


@contextlib.contextmanager
def device_lock(devices: Iterable[torch.device]) -> Iterator[None]:
    """Hold every one of `devices` alone, waiting for whoever has one now.

    Locks are taken in the order of their names, so that two launches over the same GPUs cannot
    wait for each other. Of the ranks of a surrounding torchrun only rank 0 takes them, for all:
    the others are to run at the same time. It keeps them to its end: the others' wait for rank 0
    in a collective has a time limit, and must not depend on who else measures here.

    Raises
    ------
    RecordingError
        This process measures already, so that it would wait for itself; or the locks cannot be
        had.
    """
    from filelock import FileLock

    from pytest_gpuperf.recording import RecordingError
    from pytest_gpuperf.session.ddp_joined import torchrun_place

    if not _here.acquire(blocking=False):
        raise RecordingError(
            "gpuperf: a measurement is under way in this process: a workload cannot measure "
            "another one, and threads cannot measure at the same time"
        )
    place = torchrun_place()
    keys = {device_key(device) for device in devices}
    with contextlib.ExitStack() as held:
        held.callback(_here.release)
        if place is None or place.rank == 0:
            try:
                folder = _lock_folder()
                for key in sorted(keys - _kept.keys()):
                    lock = FileLock(str(folder / f"{key}.lock"))
                    if place is None:
                        held.enter_context(lock)
                    else:
                        lock.acquire()
                        _kept[key] = lock
            except OSError as error:
                raise RecordingError(
                    f"gpuperf: the device cannot be locked against other measurements ({error}): "
                    "let TMPDIR be a folder that can be written"
                ) from error
        yield


def rank_devices(device: torch.device, world_size: int) -> list[torch.device]:
    """The devices that ranks of a measurement on `device` may run on."""
    import torch

    if device.type != "cuda":
        return [device]
    count = min(world_size, torch.cuda.device_count())
    return [torch.device("cuda", index) for index in range(count)]


def device_key(device: torch.device) -> str:
    """``cpu``, or the GPU's UUID: an index means another GPU under CUDA_VISIBLE_DEVICES."""
    if device.type != "cuda":
        return str(device.type)
    import torch

    properties = torch.cuda.get_device_properties(device)
    # Older torch does not tell the UUID; the index is then taken after CUDA_VISIBLE_DEVICES.
    uuid = getattr(properties, "uuid", None)
    key = str(uuid) if uuid else _visible(device.index or 0)
    return re.sub(r"[^\w.-]", "_", f"cuda-{key}")


def _visible(index: int) -> str:
    visible = [v for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v.strip()]
    return visible[index].strip() if index < len(visible) else str(index)


def _lock_folder() -> Path:
    """A folder that this user alone writes, the same one for every process of theirs."""
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"gpuperf-locks-{owner}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
