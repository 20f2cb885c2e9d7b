"""The user's function, found by its file or module without running any of it here."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

from gpuperf_analyzers.display import harmless
from pytest_gpuperf.ranks import Target
from pytest_gpuperf.sweep.grid import GridError


def find_target(text: str) -> Target:
    """Where ``FILE.py:NAME`` or ``MODULE:NAME`` is; the file is not run, but for parent packages.

    Raises
    ------
    GridError
        It is not written so, or there is no such file or module.
    """
    where, _, name = text.rpartition(":")
    shown = harmless(text, 120)
    if not where or not name.isidentifier():
        raise GridError(f"{shown}: write FILE.py:NAME or MODULE:NAME, a function at its top level")
    if where.endswith(".py") or "/" in where:
        path = Path(where)
        if not path.is_file():
            raise GridError(f"{shown}: there is no file {harmless(where, 120)}")
        return Target(str(path.resolve()), name, path.stem)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        spec = importlib.util.find_spec(where)
    except Exception as error:  # noqa: BLE001 - a parent package runs, and may raise anything
        raise GridError(f"{shown}: {type(error).__name__}: {harmless(error, 160)}") from None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise GridError(f"{shown}: there is no Python module {harmless(where, 80)} here")
    return Target(str(Path(spec.origin).resolve()), name, where)


def fingerprint(target: Target) -> str:
    """SHA-256 of the function's file, "" where it cannot be read."""
    try:
        return hashlib.sha256(Path(target.path).read_bytes()).hexdigest()
    except OSError:
        return ""
