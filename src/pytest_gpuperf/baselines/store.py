"""The folder of baselines: one file an environment, raw samples beside it, one writer at a time."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_gpuperf.baselines.document import BaselineError, dumps, loads, opened
from pytest_gpuperf.baselines.environment import stem
from pytest_gpuperf.baselines.files import folder_lock, sweep, write_whole
from pytest_gpuperf.baselines.model import Baseline, Name, SavedRun
from pytest_gpuperf.baselines.observation import Observation

FOLDER = "gpuperf-baselines"
KEEP = 10
"""Runs kept of each measurement, where nobody says otherwise."""
_SAMPLES = ".samples"


LARGEST = 256 << 20
"""Bytes of a file of baselines that is read."""


@dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """One file: where it is, its key, its baselines by name."""

    path: Path
    key: Mapping[str, str]
    baselines: Mapping[str, Baseline]


class PartlySavedError(OSError):
    """Some environments' files were written, and then one could not be.

    Attributes
    ----------
    saved
        File, run and number of measurements of each that was written.
    left
        Files that were not.
    why
        What the system said.
    """

    def __init__(
        self, error: OSError, saved: Sequence[tuple[Path, int, int]], left: Sequence[Path]
    ) -> None:
        names = ", ".join(path.name for path, _, _ in saved)
        not_written = ", ".join(path.name for path in left)
        super().__init__(
            error.errno, f"{error.strerror or error}: {names} was saved, {not_written} was not"
        )
        self.saved, self.left = tuple(saved), tuple(left)
        self.why = error.strerror or str(error)


class Store:
    """The baselines under one folder; each file is read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, EnvironmentFile | None] = {}

    def of(self, key: Mapping[str, str]) -> EnvironmentFile | None:
        """The file of an environment; None where there is none.

        Raises
        ------
        BaselineError
            It cannot be read, or is not what it should be.
        """
        path = self._path(key)
        if path not in self._read:
            self._read[path] = read_file(path)
        return self._read[path]

    def every(self) -> list[EnvironmentFile]:
        """Every file, by name.

        Raises
        ------
        BaselineError
            As for :meth:`of`.
        """
        try:
            paths = sorted(self.folder.glob("*.json"))
        except OSError as error:
            raise BaselineError(f"gpuperf: {self.folder}: {error.strerror or error}") from None
        for path in paths:
            if path not in self._read:
                self._read[path] = read_file(path)
        return [found for path in paths if (found := self._read[path]) is not None]

    def save(
        self,
        observed: Sequence[Observation],
        *,
        name: str,
        keep: int = KEEP,
        anew: bool = False,
        samples: bool = True,
    ) -> list[tuple[Path, int, int]]:
        """Add what one run measured; the file, the run's number and how many measurements of each.

        Runs that save at once wait for each other, and each adds to what the other has written.

        Parameters
        ----------
        observed
            Of one environment or of several (a CPU and a GPU).
        name
            The baseline's name.
        keep
            Runs kept of each measurement.
        anew
            Whether the earlier runs of what was measured are dropped.
        samples
            Whether raw samples are kept beside.

        Raises
        ------
        BaselineError
            A file that is there cannot be read; it is left as it is.
        PartlySavedError
            A file cannot be written where another was already; it is as it was.
        OSError
            The folder or the first file cannot be written; what was there is as it was.
        """
        by_key: dict[Path, list[Observation]] = {}
        for observation in observed:
            by_key.setdefault(self._path(observation.key), []).append(observation)
        saved: list[tuple[Path, int, int]] = []
        with folder_lock(self.folder):
            sweep(self.folder)
            # All are read before any is written: one that cannot be read leaves all as they are.
            there = {path: read_file(path) for path in by_key}
            for path, several in by_key.items():
                found = there[path] or EnvironmentFile(path, several[0].key, {})
                before = found.baselines.get(name, Baseline())
                run = _run(before.next_number, several[0])
                after = before.with_run(run, several, keep=keep, anew=anew)
                # Samples first: where there is no room for them, the baseline is as it was.
                try:
                    if samples:
                        _write_samples(path, name, run.number, several)
                    self._write(replace(found, baselines={**found.baselines, name: after}))
                except OSError as error:
                    _drop_samples(path, name, {r.number for r in before.runs})
                    if not saved:
                        raise
                    left = [other for other in by_key if other not in {p for p, _, _ in saved}]
                    raise PartlySavedError(error, saved, left) from None
                _drop_samples(path, name, {r.number for r in after.runs})
                saved.append((path, run.number, len(several)))
        return saved

    def change(self, path: Path, baselines: Mapping[str, Baseline]) -> None:
        """Put `baselines` in place of those of a file; a file without any is removed.

        Only within :func:`folder_lock`.

        Raises
        ------
        OSError
            It cannot be written.
        """
        found = read_file(path)
        if found is None:
            return
        for name in found.baselines:
            kept = {r.number for r in baselines[name].runs} if name in baselines else set()
            _drop_samples(path, name, kept)
        left = {name: b for name, b in baselines.items() if b.entries}
        if left:
            self._write(replace(found, baselines=left))
        else:
            path.unlink()
            self._read.pop(path, None)

    def _write(self, found: EnvironmentFile) -> None:
        write_whole(found.path, dumps(found.key, found.baselines).encode("utf-8"))
        self._read[found.path] = found

    def _path(self, key: Mapping[str, str]) -> Path:
        return self.folder / f"{stem(key)}.json"


def read_file(path: Path) -> EnvironmentFile | None:
    """One file; None where there is none.

    Raises
    ------
    BaselineError
        It cannot be read, or is not what it should be.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError(f"gpuperf: {path}: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise BaselineError(
            f"gpuperf: {path}: is larger than {LARGEST >> 20} MiB: gpuperf baseline prune"
        )
    key, baselines = loads(content, path)
    return EnvironmentFile(path, key, baselines)


def check_folder(folder: Path) -> None:
    """Refuse files in `folder` that are no baselines, before anything is measured for them.

    One of another schema is not refused: it may be of another environment, and a newer version.

    Raises
    ------
    BaselineError
        One cannot be read, is cut short, holds the marks of a merge or is of another program.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except FileNotFoundError:  # renamed meanwhile by another run
            continue
        except OSError as error:
            raise BaselineError(f"gpuperf: {path}: {error.strerror or error}") from None
        if len(content) <= LARGEST:
            opened(content, path)


def _run(number: int, first: Observation) -> SavedRun:
    at = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    return SavedRun(number, at, first.commit, first.others)


def _samples_folder(path: Path) -> Path:
    return path.with_name(f"{path.stem}{_SAMPLES}")


def _write_samples(path: Path, name: str, run: int, observed: Sequence[Observation]) -> None:
    """Raw step times, µs, of one run: a small file of their own, which can be left out."""
    document = [[o.test, o.name, list(o.samples_us)] for o in observed if o.samples_us]
    if document:
        content = json.dumps(document, separators=(",", ":")).encode("ascii")
        target = _samples_folder(path) / f"{name}-{run}.json.gz"
        write_whole(target, gzip.compress(content, mtime=0))


def _drop_samples(path: Path, name: str, kept: set[int]) -> None:
    """Remove the samples of runs that the baseline no longer has."""
    folder = _samples_folder(path)
    for file in folder.glob(f"{name}-*.json.gz"):
        number = file.name.removeprefix(f"{name}-").removesuffix(".json.gz")
        if number.isdigit() and int(number) not in kept:
            with contextlib.suppress(OSError):
                file.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def read_samples(path: Path, name: str, run: int) -> dict[Name, tuple[float, ...]]:
    """Raw step times, µs, of one run by measurement; empty where they were left out.

    Raises
    ------
    BaselineError
        The file of samples is damaged.
    """
    source = _samples_folder(path) / f"{name}-{run}.json.gz"
    try:
        raw: list[Any] = json.loads(gzip.decompress(source.read_bytes()))
        return {(test, own): tuple(map(float, samples)) for test, own, samples in raw}
    except FileNotFoundError:
        return {}
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise BaselineError(f"gpuperf: {source} is damaged ({error}): delete it") from None
