"""Why a point has no numbers: out of memory, hang or crash, as far as it can be known."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from gpuperf_analyzers.display import harmless
from pytest_gpuperf.ranks import RankOutcome, State
from pytest_gpuperf.recording.errors import is_out_of_memory
from pytest_gpuperf.session.ddp_failure import (
    cause_of,
    what_became,
    where_it_hung,
    who_hangs,
)

OUT_OF_MEMORY, HANG, CRASH, NOT_RUN = "out of memory", "hang", "crash", "not run"
_LINE = 500
_FIRST = 300
_STACK = 16 * 1024
_VMSTAT = Path("/proc/vmstat")


def oom_kills() -> int | None:
    """How many processes this machine's kernel has killed for memory; None where it does not say.

    Linux counts them in ``/proc/vmstat``, those of control groups too.
    """
    try:
        text = _VMSTAT.read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else None


def why_failed(
    outcomes: Sequence[RankOutcome], timeout_s: float, kills_before: int | None
) -> tuple[str, str, str]:
    """Status, one line, and the stack or traceback of ranks of which not all came through.

    Parameters
    ----------
    outcomes
        What became of each rank.
    timeout_s
        The point's time limit.
    kills_before
        :func:`oom_kills` before the point.
    """
    cause = cause_of(outcomes)
    if cause is None:
        return _hang(outcomes, timeout_s)
    which = f"rank {cause.rank} of {len(outcomes)} " if len(outcomes) > 1 else ""
    if cause.error is not None:
        told, kind = cause.error.message, cause.error.type
        if not kind:  # the message says all
            return NOT_RUN, one_line(which + told.removeprefix("gpuperf: ")), ""
        short = is_out_of_memory(kind, told)
        at = f" at {cause.error.at}" if cause.error.at else ""
        first = told.strip().partition("\n")[0][:_FIRST]
        line = f"{which}{kind}{': ' if first else ''}{first}{at}"
        return OUT_OF_MEMORY if short else CRASH, one_line(line), cause.error.traceback[-_STACK:]
    line = f"{which}{what_became(cause)}"
    status = CRASH
    if cause.signal == signal.SIGKILL.name:
        status, line = _killed(f"{which}was killed by SIGKILL", kills_before)
    elif is_out_of_memory("", cause.output[-2000:]):
        status = OUT_OF_MEMORY
    last = last_words(cause.output)
    return status, one_line(line + (f"; its last output: {last}" if last else "")), _stack(cause)


def _killed(line: str, kills_before: int | None) -> tuple[str, str]:
    """SIGKILL by the kernel for memory, or by somebody: told by the kernel's own count."""
    now = oom_kills()
    if kills_before is None or now is None:
        return CRASH, f"{line}; the system sends it when memory runs out, and does not say whether"
    if now > kills_before:
        return OUT_OF_MEMORY, f"{line}; the kernel killed for memory meanwhile (oom_kill {now})"
    return CRASH, f"{line}, and not by the kernel for memory: its count of these did not rise"


def _hang(outcomes: Sequence[RankOutcome], timeout_s: float) -> tuple[str, str, str]:
    hung = [o for o in outcomes if o.state is State.HUNG]
    told = f"still running after {timeout_s:g} s"
    if len(outcomes) == 1:
        return HANG, one_line(f"{told}; {where_it_hung(outcomes[0])}"), _stack(outcomes[0])
    behind = who_hangs(outcomes)
    if behind is None:
        named = ", ".join(str(o.rank) for o in hung)
        behind, who = hung[0], f"ranks {named} of {len(outcomes)}, none of which stands out"
    else:
        who = f"rank {behind.rank} of {len(outcomes)}, for which the others wait"
    line = f"{told}: {who}; rank {behind.rank} {where_it_hung(behind)}"
    return HANG, one_line(line), _stack(behind)


def _stack(outcome: RankOutcome) -> str:
    return outcome.stacks[:_STACK]


def last_words(output: str) -> str:
    """The last line of `output` that says something; "" where none does."""
    lines = reversed(output.splitlines())
    return next((line.strip() for line in lines if any(map(str.isalnum, line))), "")


def one_line(text: str) -> str:
    """`text` as one harmless line."""
    return harmless(" ".join(text.split()), _LINE)
