"""Where the traces of a test are written."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path

_LONGEST_NAME = 80
_DIGEST = 8


def folder_name(text: str) -> str:
    """`text` (a node id, a measurement's name) as one folder's name, different for each text.

    Characters that a file system or a shell may take amiss become ``-``; where that, or the
    length, changed the text, a short digest keeps it apart from its like.
    """
    plain = re.sub(r"[^\w.\[\]=-]+", "-", text).strip("-.")
    if text and plain == text and len(plain) <= _LONGEST_NAME:
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST]
    return f"{plain[:_LONGEST_NAME]}-{digest}"


def discard(paths: tuple[Path, ...], *, root: Path) -> None:
    """Remove traces that nobody asked to keep, and the folders below `root` that they leave empty.

    A file that is gone already is no error: another process of the same run may tidy too.
    """
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
        folder = path.parent
        while folder != root and root in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                break
            folder = folder.parent
    with contextlib.suppress(OSError):
        root.rmdir()
        root.parent.rmdir()
