"""Where the traces of a test are written."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path

DEFAULT_DIRECTORY = ".gpuperf"
_LONGEST_NAME = 80
_ATTEMPTS = 5
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


def make_folder(folder: Path) -> None:
    """Make `folder` and those above it.

    Another process of the same run may tidy an empty one away between two of our steps; then it
    is made again.
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(FileNotFoundError):
            folder.mkdir(parents=True, exist_ok=True)
            return
    folder.mkdir(parents=True, exist_ok=True)


def discard(paths: tuple[Path, ...], *, root: Path) -> None:
    """Remove traces that nobody asked to keep, and the folders that they leave empty.

    These are the ones below `root`, `root` itself, and the one around it where that has the name
    we gave it. What is gone already is no error: another process of the same run may tidy too.
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
        if root.parent.name == DEFAULT_DIRECTORY:
            root.parent.rmdir()
