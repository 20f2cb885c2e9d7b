"""A set of ranks that did not come through, as one paragraph that names the culprit.

When one rank fails the others fail after it: their collectives break. The cause is looked for
in this order: a rank that a signal killed, one that left early, one that raised something that
is not about a broken connection, one that raised at all, one that hung.
"""

from __future__ import annotations

import linecache
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuperf_analyzers.display import harmless
from pytest_gpuperf.ranks import RankOutcome, State

_CONSEQUENCE = re.compile(
    r"connection (was )?(closed|reset|refused)|broken pipe|closed by (remote )?peer|gloo|nccl"
    r"|socket|processgroup|store",
    re.IGNORECASE,
)
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_MAIN = re.compile(r"main thread (0x[0-9a-f]+)")
_PACKAGE = str(Path(__file__).resolve().parent.parent)
_OUTPUT_LINES = 12
_FIRST_LINE = 300
_SKIPPED = "Skipped"
"""Name of the exception that ``pytest.skip`` raises."""


class RankFailure(Exception):  # noqa: N818 - it is a failure of the test, not an error of ours
    """Ranks that did not come through; the message is what the user reads.

    Attributes
    ----------
    rank
        The rank held to be the cause, None where no single one is.
    outcomes
        What became of each rank.
    """

    def __init__(
        self, message: str, rank: int | None = None, outcomes: Sequence[RankOutcome] = ()
    ) -> None:
        super().__init__(message)
        self.rank = rank
        self.outcomes = tuple(outcomes)

    @property
    def skipped(self) -> str | None:
        """Why the rank skips the test, None where it does not: it called ``pytest.skip``."""
        for outcome in self.outcomes:
            error = outcome.error
            if outcome.rank == self.rank and error is not None and error.type == _SKIPPED:
                return error.message
        return None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rank's main thread was."""

    file: str
    line: int
    function: str
    waiting: bool
    """Inside torch or our own coordination, so most likely for another rank."""
    users: bool
    """Whether the place is in the user's code; else only the library was on the stack."""

    def __str__(self) -> str:
        if self.waiting and not self.users:
            return "for the other ranks, between calls"
        source = linecache.getline(self.file, self.line).strip()
        where = f"at {self.file}:{self.line} in {self.function}"
        return f"{where} ({source})" if source else where


def failure_of(
    outcomes: Sequence[RankOutcome], timeout_s: float, *, stacks_stem: Path
) -> RankFailure:
    """The failure that `outcomes`, not all of them DONE, amount to.

    The stacks of ranks that hung or crashed are written to ``<stacks_stem>.rank<r>.stacks.txt``.
    """
    cause = cause_of(outcomes)
    if cause is None:
        return _hang(outcomes, timeout_s, stacks_stem)
    text = f"gpuperf.ddp: rank {cause.rank} of {len(outcomes)} {what_became(cause)}"
    if cause.error is not None:
        return RankFailure(f"{text}\n{cause.error.traceback}".rstrip(), cause.rank, outcomes)
    if cause.stacks:
        text += f"\nits stacks: {_saved(cause, stacks_stem)}"
    return RankFailure(text + _last_words(cause), cause.rank, outcomes)


def cause_of(outcomes: Sequence[RankOutcome]) -> RankOutcome | None:
    """The rank whose failure the others followed; None where the ranks hung."""

    def order(outcome: RankOutcome) -> tuple[int, float]:
        if outcome.error is not None and _CONSEQUENCE.search(outcome.error.message):
            return 1, outcome.ended_s
        return 0, outcome.ended_s

    failed = [o for o in outcomes if o.state in (State.KILLED, State.EXITED, State.RAISED)]
    return min(failed, key=order, default=None)


def what_became(cause: RankOutcome) -> str:
    """How the rank ended, in words."""
    where = f" {_stage(cause)}".rstrip()
    if cause.error is not None:
        message = cause.error.message.removeprefix("gpuperf: ")
        if not cause.error.type:
            return f"cannot be measured: {message}"
        # The traceback below has all of it.
        first = harmless(message.partition("\n")[0], _FIRST_LINE)
        return f"raised {cause.error.type}{where}" + (f": {first}" if first else "")
    if cause.state is State.KILLED:
        hint = "; the system sends it when memory runs out" if cause.signal == "SIGKILL" else ""
        return f"was killed by {cause.signal}{where}, {cause.ended_s:.1f} s after the start{hint}"
    return f"ended its process itself with exit status {cause.exit_status}{where}"


def _stage(outcome: RankOutcome) -> str:
    """Where in its work the rank was, in words; "" where it told nothing."""
    if not outcome.stage:
        return ""
    if outcome.calls_begun == 0:
        return f"while {outcome.stage}" if outcome.stage[:3] != "in " else outcome.stage
    if outcome.calls_begun > outcome.calls_done:
        return f"in call {outcome.calls_begun} of the step"
    return f"after call {outcome.calls_done} of the step"


def _last_words(outcome: RankOutcome) -> str:
    """The end of what the rank wrote, as lines to append."""
    lines = outcome.output.rstrip().splitlines()[-_OUTPUT_LINES:]
    if not lines:
        return ""
    return "\nits last output:" + "".join(f"\n  | {line}" for line in lines)


def _hang(outcomes: Sequence[RankOutcome], timeout_s: float, stacks_stem: Path) -> RankFailure:
    """The failure of ranks that were still running at the time limit."""
    hung = [o for o in outcomes if o.state is State.HUNG]
    places = {o.rank: _place(o.stacks) for o in hung}
    rank = _behind(hung, places)
    size = len(outcomes)
    if rank is None:
        named = ", ".join(str(o.rank) for o in hung)
        text = f"gpuperf.ddp: ranks {named} of {size} hung: still running after {timeout_s:g} s"
    else:
        text = f"gpuperf.ddp: rank {rank} of {size} hung: still running after {timeout_s:g} s"
    for outcome in sorted(outcomes, key=lambda o: o.rank != rank):
        text += f"\nrank {outcome.rank}: {_standing(outcome, places.get(outcome.rank))}"
    saved = [str(_saved(o, stacks_stem)) for o in hung if o.stacks]
    if saved:
        text += f"\nall threads' stacks: {', '.join(saved)}"
    culprit = next((o for o in hung if o.rank == rank), None)
    return RankFailure(text + (_last_words(culprit) if culprit else ""), rank, outcomes)


def where_it_hung(outcome: RankOutcome) -> str:
    """Where a rank that hung was, in words."""
    return _standing(outcome, _place(outcome.stacks))


def who_hangs(outcomes: Sequence[RankOutcome]) -> RankOutcome | None:
    """The rank that the others wait for, of ranks that hung; None where none stands out."""
    hung = [o for o in outcomes if o.state is State.HUNG]
    rank = _behind(hung, {o.rank: _place(o.stacks) for o in hung})
    return next((o for o in hung if o.rank == rank), None)


def _standing(outcome: RankOutcome, place: _Place | None) -> str:
    """One rank's line in the message of a hang."""
    if outcome.state is not State.HUNG:
        return f"had ended ({outcome.state.value})"
    where = _stage(outcome) or "starting"
    if place is None:
        return f"{where}; it gave no stack (stopped, or in a call that cannot be interrupted)"
    return f"{where}, {'waiting ' if place.waiting else ''}{place}"


def _behind(hung: Sequence[RankOutcome], places: dict[int, _Place | None]) -> int | None:
    """The one rank that the others wait for, None where none stands out."""
    groups = [
        [o for o in hung if not _waits(places[o.rank])],
        [o for o in hung if o.calls_done == min(other.calls_done for other in hung)],
    ]
    for group in groups:
        if len(group) == 1:
            return group[0].rank
    return None


def _waits(place: _Place | None) -> bool:
    return place is not None and place.waiting


def _place(stacks: str) -> _Place | None:
    """Where the main thread was, from faulthandler's dump; the innermost frame of the user's."""
    main = _MAIN.search(stacks)
    frames: list[tuple[str, int, str]] = []
    inside = False
    for line in stacks.splitlines():
        if line.startswith(("Thread ", "Current thread ")):
            inside = main is not None and main.group(1) in line
            frames = [] if inside else frames  # a later dump is the newer one
        elif inside and (match := _FRAME.match(line)):
            frames.append((match["file"], int(match["line"]), match["function"]))
    if not frames:
        return None
    waiting = "/torch/" in frames[0][0] or frames[0][0].startswith(_PACKAGE)
    users = next((f for f in frames if not _foreign(f[0])), None)
    return _Place(*(users or frames[0]), waiting=waiting, users=users is not None)


def _foreign(file: str) -> bool:
    """Whether a file is the library's, an installed package's or ours, and not the user's."""
    roots = {sysconfig.get_path(k) for k in ("stdlib", "purelib", "platlib")} | {_PACKAGE}
    return file.startswith("<") or any(file.startswith(root) for root in roots)


def _saved(outcome: RankOutcome, stacks_stem: Path) -> Path:
    """The file that a rank's stacks were written to."""
    path = stacks_stem.with_name(f"{stacks_stem.name}.rank{outcome.rank}.stacks.txt")
    path.write_text(outcome.stacks)
    return path
