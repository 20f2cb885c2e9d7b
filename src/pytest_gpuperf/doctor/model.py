"""What the doctor says of one thing: how it stands, what was found, how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Status(Enum):
    """How one thing stands, from fine to broken."""

    OK = "ok"
    SKIP = "skip"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding of the doctor.

    Attributes
    ----------
    name
        Stable identifier, as in the documentation and in JSON.
    status
        ``fail``: nothing can be measured, or the numbers would be wrong. ``warn``: numbers will be
        noisier, or something is missing. ``note``: worth knowing. ``skip``: does not apply here.
    found
        What was found, one line.
    mend
        What to do about it, one line; "" where there is nothing to do.
    """

    name: str
    status: Status
    found: str
    mend: str = ""

    def to_json(self) -> dict[str, Any]:
        """The finding as plain JSON types."""
        return asdict(self) | {"status": self.status.value}


def ok(name: str, found: str) -> Check:
    """Nothing to mend."""
    return Check(name, Status.OK, found)


def skip(name: str, why: str) -> Check:
    """Does not apply here."""
    return Check(name, Status.SKIP, why)


def note(name: str, found: str, mend: str = "") -> Check:
    """Worth knowing."""
    return Check(name, Status.NOTE, found, mend)


def warn(name: str, found: str, mend: str) -> Check:
    """Numbers will be noisier, or a part of them missing."""
    return Check(name, Status.WARN, found, mend)


def fail(name: str, found: str, mend: str) -> Check:
    """Nothing can be measured, or what is measured would be wrong."""
    return Check(name, Status.FAIL, found, mend)


def exit_status(checks: Iterable[Check], *, strict: bool = False) -> int:
    """1 where a check failed (with `strict` a warning too), else 0."""
    bad = {Status.FAIL, Status.WARN} if strict else {Status.FAIL}
    return int(any(check.status in bad for check in checks))
