"""The files that a launch's processes speak through, and how they are written whole."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RankFiles:
    """Paths of one rank's files in a launch's folder."""

    pid: Path
    result: Path
    output: Path
    stacks: Path
    progress: Path

    @classmethod
    def of(cls, folder: Path, rank: int) -> RankFiles:
        """The files of `rank` in `folder`."""
        names = ("pid.json", "result.json", "output.txt", "stacks.txt", "progress")
        return cls(*(folder / f"rank{rank}.{name}" for name in names))


def write_json(path: Path, content: Any) -> None:
    """Write `content` so that a reader sees all of it or no file.

    Raises
    ------
    TypeError, ValueError
        `content` is not made of JSON types; nothing is written.
    """
    text = json.dumps(content)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text)
    partial.replace(path)


def read_json(path: Path) -> Any:
    """What :func:`write_json` wrote, None where there is no such file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def tail(path: Path, limit: int) -> str:
    """The last `limit` bytes of a file as text, "" where it is absent."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
