"""Files written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Replace the file in one step.

    Raises
    ------
    OSError
        It cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, document: Any) -> None:
    """Replace the file by `document` as JSON; a number that is not finite is refused.

    Raises
    ------
    OSError
        It cannot be written.
    """
    write_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n")
