"""A second look costs a fraction: the columns of a trace, kept in the user's cache directory.

One npz file a trace, keyed by the content of the file and the reader's version, written beside
and moved into place, so that several writers do no harm. Nothing in it is executed when read:
arrays without pickles, and JSON. A file that does not hold what it should is read from the
trace again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.trace import tables
from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS, GIB, MIB, Bounds
from gpuperf_analyzers.trace.files import is_url, open_trace
from gpuperf_analyzers.trace.model import (
    CollectiveArgs,
    Counters,
    Events,
    Finding,
    KernelArgs,
    MemoryEvents,
    RangeCounters,
    SyncArgs,
    Trace,
)
from gpuperf_analyzers.trace.reader import READER_VERSION, device_properties, read_trace

SMALLEST = MIB
"""Files below are read faster than they are worth keeping (see docs/performance.md)."""
LARGEST_TOTAL = 4 * GIB
"""The oldest are removed beyond this."""

_GROUPS: dict[str, tuple[type, tables.Dtypes]] = {
    "events": (Events, tables.EVENTS),
    "kernel_args": (KernelArgs, tables.KERNELS),
    "sync_args": (SyncArgs, tables.SYNCS),
    "memory": (MemoryEvents, tables.MEMORY),
    "counters": (Counters, tables.COUNTERS),
    "range_counters": (RangeCounters, tables.RANGES),
}


class _Rest(msgspec.Struct):
    """What of a trace is no array."""

    start_ns: int
    strings: list[str]
    tracks: list[tuple[int | str, int | str]]
    collective_args: list[CollectiveArgs]
    phases: dict[str, int]
    metadata: dict[str, Any]
    process_names: list[tuple[int | str, str]]
    thread_names: list[tuple[tuple[int | str, int | str], str]]
    rank: int | None
    world_size: int | None
    findings: list[Finding]


def cache_folder() -> Path:
    """Where the columns are kept: ``GPUPERF_CACHE_DIR``, else the user's cache directory."""
    from platformdirs import user_cache_path

    named = os.environ.get("GPUPERF_CACHE_DIR")
    return (Path(named) if named else user_cache_path("gpuperf")) / "traces"


def read_cached(
    path: str | os.PathLike[str],
    *,
    salvage: bool = True,
    bounds: Bounds = DEFAULT_BOUNDS,
    folder: Path | None = None,
    processes: int = 1,
) -> Trace:
    """As :func:`~gpuperf_analyzers.trace.reader.read_trace`, from the cache where it is there.

    Raises
    ------
    TraceError
        As reading does; a cache that cannot be read or written is no error.
    """
    name = os.fspath(path)
    if is_url(name) or not _worth_keeping(name):
        return read_trace(name, salvage=salvage, bounds=bounds, processes=processes)
    place = (folder or cache_folder()) / f"{_key(name, bounds, salvage=salvage)}.npz"
    kept = _load(place, name)
    if kept is not None:
        return kept
    trace = read_trace(name, salvage=salvage, bounds=bounds, processes=processes)
    with contextlib.suppress(OSError):
        _store(trace, place)
    return trace


def _worth_keeping(name: str) -> bool:
    try:
        return Path(name).stat().st_size >= SMALLEST
    except OSError:
        return False


def _key(name: str, bounds: Bounds, *, salvage: bool) -> str:
    digest = hashlib.blake2b(digest_size=20)
    digest.update(repr((READER_VERSION, bounds, salvage)).encode())
    with open_trace(name) as file:
        while chunk := file.read(MIB):
            digest.update(chunk)
    return digest.hexdigest()


def _store(trace: Trace, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    rest = _Rest(
        start_ns=trace.start_ns,
        strings=list(trace.strings),
        tracks=list(trace.tracks),
        collective_args=list(trace.collective_args),
        phases=dict(trace.phases),
        metadata=dict(trace.metadata),
        process_names=list(trace.process_names.items()),
        thread_names=list(trace.thread_names.items()),
        rank=trace.rank,
        world_size=trace.world_size,
        findings=list(trace.findings),
    )
    handle, temporary = tempfile.mkstemp(dir=place.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", allowZip64=True) as npz:
            for group in _GROUPS:
                for column in _GROUPS[group][1]:
                    values = _narrow(getattr(getattr(trace, group), column))
                    with npz.open(f"{group}.{column}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, values, allow_pickle=False)
            npz.writestr("rest.json", msgspec.json.encode(rest))
        Path(temporary).replace(place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _make_room(place.parent)


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`values` in the smallest integer type that holds them: a third of the bytes."""
    if values.dtype.kind != "i" or not values.size:
        return values
    low, high = int(values.min()), int(values.max())
    for small in (np.int8, np.int16, np.int32):
        if np.iinfo(small).min <= low and high <= np.iinfo(small).max:
            return values.astype(small)
    return values


def _load(place: Path, name: str) -> Trace | None:
    """The trace kept at `place`, None where there is none or it is not whole."""
    try:
        with zipfile.ZipFile(place) as npz:
            rest = msgspec.json.decode(npz.read("rest.json"), type=_Rest)
            groups = {
                group: kind(
                    **{n: _column(npz, f"{group}.{n}.npy", dtype) for n, dtype in dtypes.items()}
                )
                for group, (kind, dtypes) in _GROUPS.items()
            }
        os.utime(place)  # the least recently used go first
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile, msgspec.MsgspecError):
        return None
    return Trace(
        path=name,
        start_ns=rest.start_ns,
        strings=tuple(rest.strings),
        tracks=tuple(rest.tracks),
        collective_args=tuple(rest.collective_args),
        phases=rest.phases,
        metadata=rest.metadata,
        process_names=dict(rest.process_names),
        thread_names=dict(rest.thread_names),
        rank=rest.rank,
        world_size=rest.world_size,
        device_properties=device_properties(rest.metadata),
        findings=tuple(rest.findings),
        **groups,
    )


def _column(npz: zipfile.ZipFile, member: str, kind: Any) -> npt.NDArray[Any]:
    dtype = kind[0] if isinstance(kind, tuple) else kind
    with npz.open(member) as file:
        values = np.lib.format.read_array(file, allow_pickle=False).astype(dtype, copy=False)
    values.flags.writeable = False
    return values


def _make_room(folder: Path) -> None:
    """Remove the least recently used files beyond the bound."""
    kept = []
    for path in folder.glob("*.npz"):
        with contextlib.suppress(OSError):
            status = path.stat()
            kept.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept, key=lambda k: k[0]):
        if total <= LARGEST_TOTAL:
            break
        path.unlink(missing_ok=True)
        total -= size
