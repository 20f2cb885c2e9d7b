"""``report.json``: every result of a run with the environment and the commit it was made in."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuperf_analyzers import __version__
from pytest_gpuperf.report.columns import Record

SCHEMA = 1
# 1: first version.

_GIT_SECONDS = 10


def write_report(
    records: Sequence[Record],
    directory: Path,
    environment: Mapping[str, Any],
    *,
    root: Path | None = None,
    path: Path | None = None,
) -> Path:
    """Write ``report.json`` into `directory` (or exactly at `path`) and return where it is.

    The file appears whole or not at all. `root` is the folder whose commit is recorded, by
    default the current one.

    Raises
    ------
    OSError
        The folder cannot be made or written.
    """
    target = path or directory / "report.json"
    document = report_document(records, environment, root=root)
    write_whole(target, json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    return target


def report_document(
    records: Sequence[Record], environment: Mapping[str, Any], *, root: Path | None = None
) -> dict[str, Any]:
    """The report as plain JSON types."""
    created = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    return {
        "schema": SCHEMA,
        "tool": {"name": "pytest-gpuperf", "version": __version__},
        "created": created,
        "environment": plain(environment),
        "commit": commit_of(root or Path.cwd()),
        "summary": dict(Counter(str(r["verdict"]) for r in records if r.get("verdict"))),
        "results": [plain(record) for record in records],
    }


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: not-finite numbers null, unknown types their text.

    An ``interval`` with a bound that is not finite is none.
    """
    if isinstance(value, Mapping):
        found = {str(key): plain(item) for key, item in value.items()}
        bounds = found.get("interval")
        if isinstance(bounds, list) and None in bounds:
            found["interval"] = None
        return found
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    # A lone surrogate (an undecodable file name) cannot be written as UTF-8.
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def commit_of(root: Path) -> dict[str, Any] | None:
    """Hash and cleanness of the checkout that holds `root`; None outside of git."""
    sha = _git(root, "rev-parse", "HEAD")
    if not sha:
        return None
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    branch = _git(root, "rev-parse", "--abbrev-ref", "HEAD")
    return {"sha": sha, "branch": branch, "dirty": bool(changes)}


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def write_whole(target: Path, text: str) -> None:
    """Write `text` so that no reader ever sees a part of it.

    What is no file, such as ``/dev/stdout`` or a pipe, is written to and stays what it is.
    """
    if target.exists() and not target.is_file() and not target.is_dir():
        with target.open("w", encoding="utf-8") as out:
            out.write(text)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        # mkstemp makes files private; a report is as readable as any new file.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
