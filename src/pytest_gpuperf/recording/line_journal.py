"""A file that long work is noted in line by line, so that it can go on where it ended.

The first line says what the work is and where it is done; each further one is one result. A line
that a killed process left half is cut off.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any


class JournalError(Exception):
    """The journal cannot be continued: one line that names it, and the mend."""


class LineJournal:
    """Lines of JSON objects below a header, written by one process at a time.

    Parameters
    ----------
    path
        The file.
    header
        What must be equal for the work to be continued.
    what
        What the work is called in messages.
    durable
        Whether each line is on the disk before the next result is begun: where a result costs
        much more than the wait.
    """

    def __init__(
        self, path: Path, header: Mapping[str, Any], what: str, *, durable: bool = False
    ) -> None:
        self.path = path
        self._header, self._what, self._durable = dict(header), what, durable
        self._file: IO[str] | None = None

    def begin(self) -> Path | None:
        """Start anew; where an unfinished journal was moved aside to, if there was one.

        Raises
        ------
        JournalError
            Another process writes it.
        OSError
            The file cannot be written.
        """
        aside = None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            with self.path.open("a", encoding="utf-8") as there:
                self._lock(there)
                aside = self.path.with_name(f"{self.path.name}.old")
                self.path.replace(aside)
        self._file = self.path.open("w", encoding="utf-8")
        self._lock(self._file)
        self.write(self._header)
        return aside

    def resume(self) -> list[tuple[int, dict[str, Any] | None]]:
        """The lines below the header, with their numbers; writing goes on behind the last whole.

        A line that holds no JSON object is None.

        Raises
        ------
        JournalError
            It is not there, not a journal, of other work, or another process writes it.
        OSError
            It cannot be read or written.
        """
        try:
            file = self.path.open("r+", encoding="utf-8", errors="replace")
        except FileNotFoundError:
            raise JournalError(
                f"there is nothing to resume: {self.path} is not there (a {self._what} that came "
                "to its end removes it): leave --resume out"
            ) from None
        try:
            self._lock(file)
            data = self.path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            lines = whole.decode("utf-8", "replace").splitlines()
            self._check(_object(lines[0]) if lines else None)
            # What a killed process left of its last line goes.
            file.truncate(len(whole))
            file.seek(0, os.SEEK_END)
        except BaseException:
            file.close()
            raise
        self._file = file
        return [(number, _object(line)) for number, line in enumerate(lines[1:], 2)]

    def damaged(self, number: int) -> JournalError:
        """The error of a line that no result can be read from; the file is let go."""
        self.close(finished=False)
        return JournalError(
            f"{self.path}: line {number} is damaged: remove it, or leave --resume out"
        )

    def write(self, line: Mapping[str, Any]) -> None:
        """Note one result; the end of this process cannot take it back."""
        assert self._file is not None  # noqa: S101 - begin or resume comes first
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if self._durable:
            os.fsync(self._file.fileno())

    def close(self, *, finished: bool) -> None:
        """Close the file; work that came to its end needs it no more."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if finished:
            self.path.unlink(missing_ok=True)

    def _lock(self, file: IO[str]) -> None:
        """Hold the file alone until it is closed, however this process ends."""
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(
                f"{self.path} is being written by another {self._what}: wait for it, or choose "
                "another --out"
            ) from None
        except OSError:
            return  # a file system without locks: then nobody can be told apart

    def _check(self, there: Mapping[str, Any] | None) -> None:
        if there is None or "schema" not in there:
            raise JournalError(f"{self.path} is no journal of a {self._what}: leave --resume out")
        wanted = json.loads(json.dumps(self._header))
        other = [key for key in wanted if there.get(key) != wanted[key]]
        if other:
            told = "; ".join(
                f"{k} was {_short(there.get(k))}, now {_short(wanted[k])}" for k in other
            )
            raise JournalError(
                f"{self.path} is of another {self._what} ({told}): give the same options on the "
                "same device, or leave --resume out"
            )


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
