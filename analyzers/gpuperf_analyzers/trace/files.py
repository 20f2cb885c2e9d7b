"""Where traces are: local files, folders, globs, lists, and URLs through fsspec."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, cast

from gpuperf_analyzers.display import harmless
from gpuperf_analyzers.trace.model import TraceError

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A folder, a glob, one file, a URL of any of these, or a list of files."""

_SUFFIXES = (".json", ".json.gz", ".json.zst", ".json.bz2", ".json.xz", ".json.zip")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(name: str) -> bool:
    """Whether `name` goes through fsspec: ``s3://…``, ``https://…``, ``memory://…``."""
    return _URL.match(name) is not None


def open_trace(name: str) -> IO[bytes]:
    """`name` open for reading bytes.

    Raises
    ------
    TraceError
        Not there, not allowed, not a file, or the extra for URLs is missing.
    """
    try:
        if is_url(name):
            return cast("IO[bytes]", _filesystem(name)[0].open(name, "rb"))
        return open(name, "rb", opener=_without_waiting)
    except IsADirectoryError:
        raise TraceError(f"{name}: a folder: read_traces reads the traces in it") from None
    except FileNotFoundError:
        raise TraceError(f"{name}: No such file") from None
    except OSError as error:
        raise TraceError(f"{name}: {error.strerror or _one_line(error)}") from None


def _without_waiting(name: str, flags: int) -> int:
    """Open `name`; a pipe that nobody writes to is empty then, and does not hang its reader."""
    number = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(number, True)
    return number


def find_traces(paths: Paths) -> tuple[str, ...]:
    """The files that `paths` name, numbers in names in numeric order.

    Raises
    ------
    TraceError
        Nothing there.
    """
    if not isinstance(paths, (str, os.PathLike)):
        listed = [os.fspath(p) for p in paths]
        if not listed:
            raise TraceError("no traces: the list of files is empty")
        return tuple(listed)
    name = os.fspath(paths)
    found = _find_remote(name) if is_url(name) else _find_local(name)
    return tuple(sorted(found, key=_natural))


def _find_local(name: str) -> list[str]:
    if not name:
        raise TraceError("the path of a trace is empty: write . for the folder you are in")
    try:
        return _listed(name)
    except OSError as error:
        # The reason must be seen behind a name that is itself too long.
        raise TraceError(f"{harmless(name)}: {error.strerror or _one_line(error)}") from None


def _listed(name: str) -> list[str]:
    if Path(name).is_dir():
        found = [
            str(p) for p in Path(name).iterdir() if p.name.endswith(_SUFFIXES) and not p.is_fifo()
        ]
        if not found:
            raise TraceError(f"{name}: a folder without traces (*.json, *.json.gz)")
        return found
    if glob.has_magic(name) and not Path(name).exists():
        found = glob.glob(name, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute one
        if not found:
            raise TraceError(f"{name}: no file matches")
        return found
    return [name]


def _find_remote(name: str) -> list[str]:
    filesystem, _ = _filesystem(name)
    try:
        if glob.has_magic(name):
            found = filesystem.glob(name)
        elif name.endswith(_SUFFIXES) or not filesystem.isdir(name):
            return [name]
        else:
            found = filesystem.ls(name, detail=False)
            found = [f for f in found if str(f).endswith(_SUFFIXES)]
    except OSError as error:
        raise TraceError(f"{name}: {error.strerror or _one_line(error)}") from None
    if not found:
        raise TraceError(f"{name}: no trace there (*.json, *.json.gz)")
    return [f if is_url(f) else filesystem.unstrip_protocol(f) for f in found]


def _filesystem(name: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        filesystem, path = url_to_fs(name)
    except ImportError as error:
        raise TraceError(
            f"{name}: a URL is read through fsspec ({_one_line(error)}): "
            "pip install 'pytest-gpuperf[remote]' and what the scheme needs"
        ) from None
    except ValueError as error:
        raise TraceError(f"{name}: {_one_line(error)}") from None
    return filesystem, path


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(1, int(p), "") if p.isdigit() else (0, 0, p) for p in parts]
