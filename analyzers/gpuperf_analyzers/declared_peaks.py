"""Devices that a project or a user declares beside the built-in table.

A project's are in ``pyproject.toml``, as ``[[tool.gpuperf.device]]`` tables or in the file that
``[tool.gpuperf] devices = "..."`` names; a user's own are in ``devices.toml`` in the folder of
gpuperf's settings. All have the layout of the built-in table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuperf_analyzers.declared_devices import DeclarationError, parse_devices
from gpuperf_analyzers.hookspecs import Peak

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

FILE = "devices.toml"
_KEYS = ("device", "devices")


def declared_peaks(folder: Path | None = None, user_file: Path | None = None) -> tuple[Peak, ...]:
    """The user's own peaks, then the project's: of equal names the project's stand.

    Parameters
    ----------
    folder
        Where to look for ``pyproject.toml``, there and above; by default the working directory.
    user_file
        The user's file; by default ``devices.toml`` in ``platformdirs.user_config_dir("gpuperf")``.

    Raises
    ------
    DeclarationError
        A file that cannot be read or understood: one line that names it and the mend.
    """
    own = _user_file() if user_file is None else user_file
    found: tuple[Peak, ...] = ()
    if own.is_file():
        found = parse_devices(_read(own).get("device"), str(own))
    return (*found, *_projects(Path.cwd() if folder is None else folder))


def _user_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("gpuperf", appauthor=False) / FILE


def _projects(folder: Path) -> tuple[Peak, ...]:
    """What the nearest ``pyproject.toml`` at or above `folder` declares."""
    here = folder.resolve()
    for parent in (here, *here.parents):
        path = parent / "pyproject.toml"
        if path.is_file():
            return _of_project(path)
    return ()


def _of_project(path: Path) -> tuple[Peak, ...]:
    text = _text(path)
    # Without our table the file is none of our business, and may even be broken.
    if "tool.gpuperf" not in text:
        return ()
    table: Any = _parse(text, path).get("tool", {}).get("gpuperf", {})
    at = f"{path}: [tool.gpuperf]"
    unknown = sorted(table.keys() - set(_KEYS))
    if unknown:
        raise DeclarationError(
            f"gpuperf: {at}: {unknown[0]!r} is unknown: write {' or '.join(_KEYS)}"
        )
    found: tuple[Peak, ...] = ()
    if "devices" in table:
        named = path.parent / str(table["devices"])
        found = parse_devices(_read(named).get("device"), str(named))
    if "device" in table:
        found += parse_devices(table["device"], at)
    return found


def _read(path: Path) -> Mapping[str, Any]:
    return _parse(_text(path), path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(f"gpuperf: {path} cannot be read: {error}") from None


def _parse(text: str, path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError(f"gpuperf: {path} is no TOML: {error}") from None
