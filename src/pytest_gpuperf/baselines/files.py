"""Files that are whole or not there, and one writer at a time, whatever ends it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_TEMPORARY = ".tmp-gpuperf-"


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold `folder` alone among processes that write to it; it is made where it is missing.

    The lock is on the folder itself, so that no file is left in anybody's repository, and the
    system releases it when its holder dies. A file system that cannot lock a folder (NFS) gets a
    lock in the temporary folder instead, which holds on this machine only.

    Raises
    ------
    OSError
        The folder cannot be made or read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        try:
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except (ImportError, OSError):
            held.enter_context(_lock_elsewhere(folder))
        yield


def _lock_elsewhere(folder: Path) -> contextlib.AbstractContextManager[object]:
    import hashlib

    from filelock import FileLock

    digest = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    return FileLock(str(Path(tempfile.gettempdir()) / f"gpuperf-baselines-{digest[:16]}.lock"))


def write_whole(target: Path, content: bytes) -> None:
    """Write `content` so that a reader sees the old file or the new one, never a part.

    Raises
    ------
    OSError
        It cannot be written; the old file, if there is one, is as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f"{_TEMPORARY}{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's files are private
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def sweep(folder: Path) -> None:
    """Remove what a killed writer left in `folder`; only for who holds its lock."""
    for left in folder.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            left.unlink()
