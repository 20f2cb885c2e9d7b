"""A foreign file as bounded text: unpacked, decoded, and no larger than stated."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

from gpuperf_analyzers.foreign.model import ForeignError

LARGEST = 256 << 20
"""Bytes of text that are read of one file (256 MiB): logs of days are smaller."""
LONGEST_LINE = 1 << 20
"""Characters of one line that are looked at."""
MOST = 1e30
"""No counter of a device is larger; sums of what is smaller stay finite."""
_HEAD = 64 << 10
_GZIP = b"\x1f\x8b"
_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def head_of(path: str | os.PathLike[str]) -> str:
    """The first 64 KiB of the text of `path`; "" where it is no text or cannot be unpacked.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    with Path(path).open("rb") as file:
        raw = file.read(_HEAD)
    if raw[:2] == _GZIP:
        try:
            raw = zlib.decompressobj(wbits=31).decompress(raw, _HEAD)
        except zlib.error:
            return ""
    text = _decoded(raw)
    return "" if "\x00" in text else text


def text_of(path: str | os.PathLike[str]) -> str:
    """All text of `path`, plain or gzip, in UTF-8 or UTF-16; what is no UTF-8 becomes U+FFFD.

    Raises
    ------
    ForeignError
        The file cannot be read, or is larger than :data:`LARGEST` when unpacked.
    """
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            if packed:
                with gzip.open(file) as unpacked:
                    raw = unpacked.read(LARGEST + 1)
            else:
                raw = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ForeignError(f"{name}: {reason}") from None
    if len(raw) > LARGEST:
        raise ForeignError(
            f"{name}: more than {LARGEST >> 20} MiB of text: split the log, or cut what is not of "
            "the run"
        )
    return _decoded(raw)


def lines_of(text: str) -> list[str]:
    """The lines of `text`, each cut at :data:`LONGEST_LINE`; blanks at the ends are left out."""
    return [line[:LONGEST_LINE].rstrip() for line in text.splitlines()]


def _decoded(raw: bytes) -> str:
    for mark, encoding in _BOMS.items():
        if raw.startswith(mark):
            return raw.decode(encoding, "replace").lstrip("\ufeff")
    return raw.decode("utf-8", "replace")


def number(text: str | None) -> float | None:
    """The number at the begin of `text` (``71.15 W`` → 71.15); None where there is none.

    What is :data:`MOST` or more is none, nor are ``N/A``, ``[Not Supported]``, ``-`` and the like.
    """
    words = (text or "").split()
    try:
        value = float(words[0].rstrip("%")) if words else None
    except ValueError:
        return None
    return value if value is not None and abs(value) < MOST else None
