"""The list of events, block by block: the fast way, and the way around what is broken.

A block ends at the last place that looks like the gap between two events. That it decodes is
the proof that the cut was right; only a block that does not is looked at closely.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gpuperf_analyzers.trace import schema
from gpuperf_analyzers.trace.bounds import Bounds
from gpuperf_analyzers.trace.columns import DigitsNeeded, EventColumns
from gpuperf_analyzers.trace.damage import Damage
from gpuperf_analyzers.trace.model import TraceError
from gpuperf_analyzers.trace.salvage import Item, Walk, mend, next_event, walk
from gpuperf_analyzers.trace.text import Text

_DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)
_LIST_END = re.compile(rb'\}\s*(\])\s*(?:,\s*"|\})')
_SPACE = b" \t\r\n"
_END_TRIES = 4


class EventList:
    """Reads the events of one document into columns."""

    def __init__(self, text: Text, columns: EventColumns, bounds: Bounds, damage: Damage) -> None:
        self._text = text
        self._columns = columns
        self._bounds = bounds
        self._damage = damage
        self._objects = 0
        self._others = 0
        self._truncated_at = -1

    def read(self, pending: bytes, *, is_object: bool) -> bytes | None:
        """Read on from `pending`; what follows the list's end, None where the text ended in it.

        Raises
        ------
        TraceError
            The elements are not events, or salvage is off and something is broken.
        """
        need = self._bounds.block
        while True:
            chunk = self._text.read(need)
            final = not chunk
            buffer = pending + chunk
            need = self._bounds.block
            if not final:
                end, next_start = _boundary(buffer)
                if end > 0 and self._decode(buffer[:end]):
                    pending = buffer[next_start:]
                    continue
            done, closed = self._close_look(buffer, final=final)
            pending = buffer[done:]
            if closed:
                self._refuse_foreign()
                return pending
            if final:
                self._refuse_foreign()
                self._note_open_end(pending, is_object=is_object)
                return None
            if len(pending) > self._bounds.event:
                pending = self._skip_oversized(pending)
            need = max(need, len(pending))  # doubling: each byte is looked at twice on average

    # ------------------------------------------------------------------ the fast way
    def _decode(self, block: bytes) -> bool:
        """Decode `block` into the columns; False where it is not a whole number of events."""
        wrapped = b"[" + block + b"]"
        columns = self._columns
        decoder = schema.exact_block_decoder if columns.exact else schema.block_decoder
        try:
            events = decoder.decode(wrapped)
        except _DECODE_ERRORS:
            return False
        try:
            columns.add(events)
        except DigitsNeeded:
            columns.exact = True
            columns.add(schema.exact_block_decoder.decode(wrapped))
        self._objects += len(events)
        return True

    # ------------------------------------------------------------------ the other way
    def _close_look(self, buffer: bytes, *, final: bool) -> tuple[int, bool]:
        """Read what can be read of `buffer`: how far that goes, and whether the list ended."""
        for tries, match in enumerate(_LIST_END.finditer(buffer)):
            if self._decode(buffer[: match.start(1)]):
                return match.end(1), True
            if tries == _END_TRIES:
                break
        end, next_start = _boundary(buffer)
        if end > 0:
            mended = mend(buffer[:end])
            if mended.count and self._decode(mended.text):
                self._damage.note(
                    "repaired",
                    mended.reason,
                    at=self._offset(buffer) + mended.at,
                    count=mended.count,
                )
                return next_start, False
        return self._one_by_one(buffer, final=final)

    def _offset(self, buffer: bytes) -> int:
        return self._text.given - len(buffer)

    def _one_by_one(self, buffer: bytes, *, final: bool) -> tuple[int, bool]:
        offset = self._offset(buffer)
        at = 0
        while True:
            found = walk(buffer[at:] if at else buffer, final=final)
            resumed = self._take(buffer, at, found, offset)
            if resumed >= 0:
                at = resumed
                continue
            rest = at + found.rest
            if found.closed:
                if buffer[rest : rest + 1] == b"]" and not _event_follows(buffer, rest + 1):
                    return rest + 1, True
                if not final and len(buffer) - rest < 4096:
                    return rest, False
                self._damage.note("repaired", "a stray bracket", at=offset + rest)
                at = rest + 1
                continue
            resumed = self._resume(buffer, rest)
            if resumed < 0:
                return rest, False
            self._lose(offset + rest, "its quotes or brackets do not match")
            at = resumed

    def _take(self, buffer: bytes, at: int, found: Walk, offset: int) -> int:
        """Decode the items of `found`; where to walk again from, -1 where all was taken."""
        previous = at
        for number, item in enumerate(found.items):
            start, end = at + item.start, at + item.end
            commas = buffer.count(b",", previous, start)
            if number and commas != 1:
                reason = "a missing comma" if commas == 0 else "an extra comma"
                self._damage.note("repaired", reason, at=offset + previous)
            previous = end
            if self._take_one(buffer[start:end], item, offset + start):
                continue
            inner = next_event(buffer[:end], start + 1)
            self._lose(offset + start, self._reason(buffer[start:end], item))
            if inner >= 0:
                return inner
        if found.closed and found.items:
            closing = at + found.rest
            if buffer.count(b",", previous, closing):
                self._damage.note("repaired", "a trailing comma", at=offset + previous)
        return -1

    def _take_one(self, text: bytes, item: Item, offset: int) -> bool:
        if item.depth > self._bounds.nesting or len(text) > self._bounds.event:
            return False
        if self._decode(text):
            return True
        if self._odd(text):
            return True
        mended = mend(text)
        if mended.count and (self._decode(mended.text) or self._odd(mended.text)):
            self._damage.note("repaired", mended.reason, at=offset + mended.at, count=mended.count)
            return True
        return False

    def _odd(self, text: bytes) -> bool:
        """Count valid JSON that is no known event: an unknown phase, or not an object."""
        try:
            value: Any = msgspec.json.decode(text)
        except _DECODE_ERRORS:
            return False
        if isinstance(value, dict):
            phase = value.get("ph")
            self._columns.phases[phase if isinstance(phase, str) else ""] += 1
            self._objects += 1
        else:
            self._others += 1
        return True

    def _reason(self, text: bytes, item: Item) -> str:
        if item.depth > self._bounds.nesting:
            return f"nested more than {self._bounds.nesting} deep"
        if len(text) > self._bounds.event:
            return f"longer than {self._bounds.event >> 20} MiB"
        try:
            msgspec.json.decode(text)
        except _DECODE_ERRORS as error:
            return str(error).splitlines()[0]
        return "not an event"

    def _lose(self, at: int, reason: str) -> None:
        self._damage.note("events-lost", reason, at=at)

    def _resume(self, buffer: bytes, rest: int) -> int:
        """Where a whole event begins after the unfinished one at `rest`; -1: read on first."""
        inner = next_event(buffer, rest + 1)
        while inner >= 0:
            found = walk(buffer[inner:], final=False)
            if found.items:
                first = found.items[0]
                try:
                    msgspec.json.decode(buffer[inner + first.start : inner + first.end])
                except _DECODE_ERRORS:
                    pass
                else:
                    return inner
            elif not found.items:
                return -1
            inner = next_event(buffer, inner + 1)
        return -1

    def _skip_oversized(self, pending: bytes) -> bytes:
        """Drop an element longer than the bound, up to the next event."""
        at = self._offset(pending)
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
        if self._others and not self._objects:
            raise TraceError(
                f"{self._damage.path}: a list of {self._others} values, not of events: "
                "not a Kineto trace (a memory timeline has its own reader)"
            )
        if self._objects and self._columns.phases.get("") == self._objects:
            raise TraceError(
                f"{self._damage.path}: a list of {self._objects} objects without a phase (ph): "
                "not a Kineto trace"
            )
        if self._others:
            self._damage.note("events-lost", "not an object", count=self._others)

    def _note_open_end(self, pending: bytes, *, is_object: bool) -> None:
        problem = self._text.unpacked.problem
        at = self._offset(pending)
        partial = pending.strip(_SPACE + b",")
        if problem:
            code = "truncated" if "cut off" in problem else "damaged-container"
            self._damage.note(code, problem, at=at)
        elif partial:
            self._damage.note("truncated", "the text ends in an event", at=at)
        elif is_object:
            self._damage.note("truncated", "the text ends in the list of events", at=at)


def _boundary(buffer: bytes) -> tuple[int, int]:
    """The last gap between two events: where the first ends and the second starts; or (0, 0).

    That is a ``{`` after a comma after a ``}``; argument objects come after a colon.
    """
    at = len(buffer)
    while (at := buffer.rfind(b"{", 0, at)) > 0:
        gap = buffer[max(0, at - 64) : at].rstrip(_SPACE)
        if gap.endswith(b",") and gap[:-1].rstrip(_SPACE).endswith(b"}"):
            comma = buffer.rfind(b",", 0, at)
            return comma, at
    return 0, 0


def _event_follows(buffer: bytes, after: int) -> bool:
    tail = buffer[after : after + 4096].lstrip(_SPACE)
    return tail[:1] == b"," and tail[1:].lstrip(_SPACE)[:1] == b"{"
