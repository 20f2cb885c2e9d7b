"""The list of events, block by block.

A block ends at the last place that looks like the gap between two events. That it decodes is
the proof that the cut was right; only a block that does not is looked at closely
(:mod:`~gpuperf_analyzers.trace.recovery`).
"""

from __future__ import annotations

import contextlib

from gpuperf_analyzers.trace.bounds import Bounds
from gpuperf_analyzers.trace.columns import DECODE_ERRORS, EventColumns
from gpuperf_analyzers.trace.crew import Crew
from gpuperf_analyzers.trace.damage import Damage
from gpuperf_analyzers.trace.model import TraceError
from gpuperf_analyzers.trace.recovery import BOUNDARY_TRIES, Recovery
from gpuperf_analyzers.trace.salvage import mend, next_event
from gpuperf_analyzers.trace.text import Text

_SPACE = b" \t\r\n"


class EventList:
    """Reads the events of one document into columns, with the help of a crew if there is one."""

    def __init__(
        self,
        text: Text,
        columns: EventColumns,
        bounds: Bounds,
        damage: Damage,
        crew: Crew | None = None,
    ) -> None:
        self._text = text
        self._crew = crew
        self._columns = columns
        self._bounds = bounds
        self._damage = damage
        self._recovery = Recovery(self._decode_events, columns.phases, damage)

    def read(self, pending: bytes, *, is_object: bool) -> bytes | None:
        """Read on from `pending`; what follows the list's end, None where the text ended in it.

        Raises
        ------
        TraceError
            The elements are not events, or salvage is off and something is broken.
        """
        need = self._bounds.block
        pending += self._text.read(need)
        first = pending.lstrip(_SPACE + b",")[:1]
        if first not in b"{]" and next_event(b"," + pending, 0) < 0:
            raise TraceError(
                f"{self._damage.path}: a list of values, not of events: not a Kineto trace"
            )
        while True:
            chunk = self._text.read(need)
            final = not chunk
            need = self._bounds.block
            if not final:
                end, next_start = _boundary(chunk)
                # One copy of the block: its text is not touched again where it decodes.
                at = self._text.given - len(chunk) - len(pending)
                if end > 0 and self._take(
                    b"".join((b"[", pending, memoryview(chunk)[:end], b"]")), at - 1
                ):
                    pending = chunk[next_start:]
                    continue
            buffer = pending + chunk
            offset = self._text.given - len(buffer)
            done, closed = self._recovery.take(buffer, offset, final=final)
            pending = buffer[done:]
            if closed:
                self._refuse_foreign()
                return pending
            if self._recovery.gave_up:
                self._refuse_foreign()
                return None
            if final and done == 0:
                self._refuse_foreign()
                self._note_open_end(pending, is_object=is_object)
                return None
            if len(pending) >= self._bounds.event:
                pending = self._skip_oversized(pending)
            # Doubling, so that a long event is looked at twice on average.
            need = min(max(need, len(pending)), self._bounds.event)

    def _take(self, block: bytes, at: int) -> bool:
        """Give the block to another process if one is free for it, else decode it here."""
        if self._crew is not None and self._crew.give(block, self._columns):
            return True
        return self._decode(block, at)

    def _decode(self, block: bytes, at: int | None = None) -> bool:
        """Decode the list `block` into the columns; False where it is none of whole events.

        `at` is where it stands in the text, as far as known.
        """
        if not self._columns.decode(block):
            return False
        if self._columns.has_ranges:
            self._add_ranges(block, at)
        return True

    def _add_ranges(self, block: bytes, at: int | None) -> None:
        """The counters of ranges, whose every argument is decoded: more text that may be bad."""
        columns = self._columns
        try:
            columns.add_ranges(block)
        except DECODE_ERRORS:
            mended = mend(block)
            place = None if at is None else at + max(mended.at, 0)
            self._damage.note("repaired", mended.reason, at=place, count=max(mended.count, 1))
            with contextlib.suppress(*DECODE_ERRORS):
                columns.add_ranges(mended.text)
            columns.has_ranges = False

    def _decode_events(self, text: bytes) -> bool:
        return self._decode(b"[" + text + b"]")

    def _skip_oversized(self, pending: bytes) -> bytes:
        """Drop an element longer than the bound, up to the next event."""
        at = self._text.given - len(pending)
        self._damage.note("events-lost", f"longer than {self._bounds.event >> 20} MiB", at=at)
        inner = next_event(pending, 1)
        while inner < 0:
            chunk = self._text.read(self._bounds.block)
            if not chunk:
                return b""
            pending = pending[-64:] + chunk
            inner = next_event(pending, 0)
        return pending[inner:]

    def _refuse_foreign(self) -> None:
        """A list of something else is no trace with losses.

        Raises
        ------
        TraceError
            No element was an event.
        """
        phases = self._columns.phases
        objects, others = sum(phases.values()), self._recovery.others
        if (others and not objects) or (objects and phases.get("") == objects):
            raise TraceError(
                f"{self._damage.path}: a list of {objects + others} values without a phase (ph): "
                "not a Kineto trace"
            )
        if others:
            self._damage.note("events-lost", "not an object", count=others)

    def _note_open_end(self, pending: bytes, *, is_object: bool) -> None:
        problem = self._text.unpacked.problem
        at = self._text.given - len(pending)
        partial = pending.strip(_SPACE + b",")
        if problem:
            code = "truncated" if "cut off" in problem else "damaged-container"
            self._damage.note(code, problem, at=at)
        elif partial:
            self._damage.note("truncated", "the text ends in an event", at=at)
        elif is_object:  # a bare list may go without its bracket
            self._damage.note("truncated", "the text ends in the list of events", at=at)


def _boundary(buffer: bytes) -> tuple[int, int]:
    """The last gap between two events: where the first ends and the second starts; or (0, 0).

    That is a ``{`` after a comma after a ``}``; argument objects come after a colon.
    """
    at = len(buffer)
    for _ in range(BOUNDARY_TRIES):
        at = buffer.rfind(b"{", 0, at)
        if at <= 0:
            break
        gap = buffer[max(0, at - 64) : at].rstrip(_SPACE)
        if gap.endswith(b",") and gap[:-1].rstrip(_SPACE).endswith(b"}"):
            return buffer.rfind(b",", 0, at), at
    return 0, 0
