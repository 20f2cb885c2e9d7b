"""A snapshot's file, found by its content and read without torch and without trusting it."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gpuperf_analyzers.snapshot.errors import SnapshotError
from gpuperf_analyzers.snapshot.fields import FieldError
from gpuperf_analyzers.snapshot.layout import snapshot_of
from gpuperf_analyzers.snapshot.model import Snapshot
from gpuperf_analyzers.snapshot.plain_pickle import Limits, PlainPickleError, read_plain_pickle

LARGEST_FILE = 4 * 2**30
"""Bytes that a snapshot may have, unpacked."""
RATIO, RATIO_FROM = 100, 16 * 2**20
"""Unpacked it may be so many times the packed size, once it has so many bytes. Snapshots compress 5
to 15 times, however regular their history; what compresses 1000 times is a bomb."""
_GZIP = b"\x1f\x8b"
_CHUNK = 2**20
_OLD_STARTS = (b"(dp", b"(lp", b"}q", b"]q", b"(d", b"(l")
"""How dicts and lists begin in protocols 0 and 1; nothing of JSON does."""


def is_snapshot(path: str | Path) -> bool:
    """Whether the file begins as a pickle does, packed by gzip or not.

    Raises
    ------
    OSError
        It cannot be opened.
    """
    with Path(path).open("rb") as file:
        head = file.read(512)
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, 16)
        except zlib.error:
            return False
    return _begins_as_pickle(head)


def _begins_as_pickle(head: bytes) -> bool:
    if len(head) >= 2 and head[0] == 0x80:
        return 2 <= head[1] <= 15
    return head.startswith(_OLD_STARTS)


def read_snapshot(path: str | Path, limits: Limits | None = None) -> Snapshot:
    """The snapshot that ``torch.cuda.memory._dump_snapshot`` wrote to `path`.

    Nothing of it is run: see :mod:`gpuperf_analyzers.snapshot.plain_pickle`.

    Raises
    ------
    SnapshotError
        The file cannot be opened, is too large, damaged, of no known layout, or holds anything
        but plain containers and scalars.
    """
    where = Path(path)
    try:
        data = _content(where)
        with _no_collections():
            raw = read_plain_pickle(data, limits)
            return snapshot_of(raw, str(where), entries=max(len(data), 1))
    except OSError as error:
        raise SnapshotError(f"{where}: {error.strerror or error}") from error
    except PlainPickleError as error:
        raise SnapshotError(f"{where}: not read as a snapshot: {error}") from None
    except FieldError as error:
        raise SnapshotError(f"{where}: not a snapshot of torch's allocator: {error}") from None
    except MemoryError:
        raise SnapshotError(f"{where}: it does not fit into this machine's memory") from None


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        head = file.read(len(_GZIP))
        file.seek(0)
        data = b"".join(_unpacked(file)) if head == _GZIP else file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise PlainPickleError(f"it is larger than {LARGEST_FILE // 2**30} GiB")
    return data


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    """What a gzip file holds, piece by piece, up to the first one that is too much.

    Raises
    ------
    PlainPickleError
        It is damaged, truncated, or unpacks to more than any snapshot does.
    """
    unpacker = zlib.decompressobj(wbits=31)
    packed = given = 0
    while not unpacker.eof and given <= LARGEST_FILE:
        data = unpacker.unconsumed_tail
        if not data:
            data = file.read(_CHUNK)
            packed += len(data)
        try:
            piece = unpacker.decompress(data, _CHUNK)
        except zlib.error as error:
            raise PlainPickleError(f"its compression is damaged ({error})") from None
        given += len(piece)
        if given > RATIO_FROM and given > RATIO * packed:
            raise PlainPickleError(
                f"it unpacks to more than {RATIO} times its size, which no snapshot does: "
                "a decompression bomb is not read"
            )
        if not data and not piece:
            raise PlainPickleError("it is truncated: its compression does not end")
        yield piece


@contextmanager
def _no_collections() -> Iterator[None]:
    """Millions of containers are made and none is garbage: looking for some takes most time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
