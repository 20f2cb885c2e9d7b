"""The last run's measurements, which ``gpuperf baseline update`` accepts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_gpuperf.baselines.document import BaselineError
from pytest_gpuperf.baselines.files import write_whole
from pytest_gpuperf.baselines.observation import Observation

FILE = "last-run.json.gz"
SCHEMA = 1
# 1: first version.


@dataclass(frozen=True, slots=True)
class LastRun:
    """What the last run measured, by whether its tests passed."""

    passed: tuple[Observation, ...]
    failed: tuple[Observation, ...]


def write(
    directory: Path, passed: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, Any]]
) -> None:
    """Leave the measurements of a run in `directory`.

    Raises
    ------
    OSError
        It cannot be written.
    """
    document = {"schema": SCHEMA, "passed": list(passed), "failed": list(failed)}
    content = json.dumps(document, separators=(",", ":")).encode("ascii")
    write_whole(directory / FILE, gzip.compress(content, compresslevel=3, mtime=0))


def read(path: Path) -> LastRun:
    """What was left in the file `path`.

    Raises
    ------
    BaselineError
        It is not there, or damaged.
    """
    try:
        raw = json.loads(gzip.decompress(path.read_bytes()))
        return _last_run(raw)
    except FileNotFoundError:
        raise BaselineError(f"gpuperf: {path}: there is no last run: run pytest first") from None
    except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BaselineError(f"gpuperf: {path} cannot be used ({error}): run pytest anew") from None


def _last_run(raw: Mapping[str, Any]) -> LastRun:
    if raw.get("schema") != SCHEMA:
        raise ValueError(f"of schema {raw.get('schema')!r}, this version reads {SCHEMA}")
    return LastRun(
        tuple(Observation.from_json(each) for each in raw["passed"]),
        tuple(Observation.from_json(each) for each in raw["failed"]),
    )
