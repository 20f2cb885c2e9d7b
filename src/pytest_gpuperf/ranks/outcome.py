"""What one rank is given and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.ranks.progress import Progress


class State(str, Enum):
    """How a rank ended."""

    DONE = "done"
    """It returned a value."""
    RAISED = "raised"
    """An exception left the function."""
    EXITED = "exited"
    """The process ended by itself before it returned or raised."""
    KILLED = "killed"
    """A signal that was not ours ended it."""
    HUNG = "hung"
    """It was still running at the time limit, and was ended."""
    STOPPED = "stopped"
    """It was ended because another rank had failed."""


@dataclass(frozen=True, slots=True)
class RankContext:
    """What a rank's function is called with, besides the payload.

    Attributes
    ----------
    rank, world_size
        Which of how many.
    workdir
        Folder shared by the ranks of one launch, removed by who made it.
    timeout_s
        Time limit of the whole launch, s.
    progress
        Where the rank tells how far it is, for the message when it hangs.
    """

    rank: int
    world_size: int
    workdir: Path
    timeout_s: float
    progress: Progress


class ToldError(Exception):
    """An error whose message says everything: it is told without a traceback."""


@dataclass(frozen=True, slots=True)
class RankError:
    """An exception that left a rank's function.

    ``type`` is the class's name, ``message`` its text, ``traceback`` the formatted traceback
    without the frames of this package, ``at`` the last of those frames as ``file:line``. Of a
    :class:`ToldError` there is neither a type nor a traceback.
    """

    type: str
    message: str
    traceback: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class RankOutcome:
    """What became of one rank.

    Attributes
    ----------
    rank
        Which one.
    state
        How it ended.
    value
        What the function returned (JSON types); None unless ``state`` is DONE.
    error
        The exception; None unless ``state`` is RAISED.
    exit_status
        Exit status of the process, None where a signal ended it.
    signal
        Name of the signal that ended it (``SIGKILL``), "" where none did.
    ended_s
        Seconds from the launch to its end, or to the moment it was stopped.
    output
        The end of what it wrote to stdout and stderr, together.
    output_bytes
        How much it wrote in all.
    stacks
        faulthandler's dump of all threads, where one was asked for or a fault left one.
    stage, calls_begun, calls_done
        Its own last word on how far it was.
    """

    rank: int
    state: State
    value: Any = None
    error: RankError | None = None
    exit_status: int | None = None
    signal: str = ""
    ended_s: float = 0.0
    output: str = ""
    output_bytes: int = 0
    stacks: str = ""
    stage: str = ""
    calls_begun: int = 0
    calls_done: int = 0

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> RankOutcome:
        """The outcome that :meth:`to_json` wrote."""
        error = raw["error"]
        return cls(
            **{
                **raw,
                "state": State(raw["state"]),
                "error": None if error is None else RankError(**error),
            }
        )
