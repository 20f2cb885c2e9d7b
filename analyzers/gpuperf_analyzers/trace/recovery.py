"""What to do with a block of events that does not decode.

Most often nothing is wrong: the list ends in it, or an argument looked like a gap between
events. Else it is mended as a whole, then event by event; what still does not decode is left
out and counted. Text is cut where the next event seems to begin, never by matching brackets
through the damage, so that one broken event costs itself and not its neighbours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from gpuperf_analyzers.trace.bounds import KIB, MIB
from gpuperf_analyzers.trace.damage import Damage
from gpuperf_analyzers.trace.salvage import Mended, element_end, mend, next_event

_DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)
_LIST_END = re.compile(rb'\}[\s,]*(\])\s*(?:,\s*"|\}|\Z)')
_TOP_LEVEL = re.compile(
    rb'(\])\s*,\s*"(?:traceName|displayTimeUnit|baseTimeNanoseconds|schemaVersion|'
    rb'deviceProperties|distributedInfo|trace_id|metadata|INFO|WARNING|ERROR)"\s*:'
)
_TRIES = 4
"""How many places are tried as the end of an event, or of the list, before it is given up."""
BOUNDARY_TRIES = 4096
"""How many opening brackets are looked at for a gap between events; a real one has few between."""
_MENDED_WHOLE = MIB
"""Longest text that is mended as a whole: one that grew beyond is not made valid by it."""
_FEW_LOST = 2000
"""Losses that are put up with, however few events are whole."""
_ENOUGH = 64 * KIB
"""Text after an event that rules out that its end is merely not read yet."""
_NO_MENDING = ("expected ',' or '}'", "expected ':'", "recursion")
"""First errors that no mending removes; looking for one costs more than the event is worth."""
_SPACE = b" \t\r\n"
_GAP = re.compile(rb"[\s,]*")


class Recovery:
    """Reads difficult blocks of one list of events.

    Parameters
    ----------
    decode
        Takes a text of events into the columns; False where it is not valid.
    phases
        Where objects of unknown phase are counted.
    damage
        Where losses and repairs are told.
    """

    def __init__(
        self, decode: Callable[[bytes], bool], phases: Counter[str], damage: Damage
    ) -> None:
        self._decode = decode
        self._phases = phases
        self._damage = damage
        self.others = 0
        """Elements that are no objects."""
        self.gave_up = False
        """Whether the rest of the file is not worth reading."""

    def take(self, buffer: bytes, offset: int, *, final: bool) -> tuple[int, bool]:
        """Read what can be read of `buffer`, which stands at `offset` of the text.

        Returns how far that goes, and whether the list ended there. `final`: no more will come.
        """
        at = _skip(buffer, 0)
        if at == len(buffer) or buffer[at : at + 1] == b"]":
            return self._one_by_one(buffer, 0, offset, final=final)
        closed = self._to_list_end(buffer, at, len(buffer), final=final)
        if closed:
            return closed, True
        cut = buffer.rfind(b"}", 0, self._last_start(buffer)) + 1
        if at < cut < at + _MENDED_WHOLE:
            mended = mend(buffer[at:cut])
            if mended.count and self._decode(mended.text):
                self._tell(mended, offset + at)
                return cut, False
        return self._one_by_one(buffer, at, offset, final=final)

    @staticmethod
    def _last_start(buffer: bytes) -> int:
        at = len(buffer)
        for _ in range(BOUNDARY_TRIES):
            at = buffer.rfind(b"{", 0, at)
            if at <= 0:
                break
            if buffer[max(0, at - 64) : at].rstrip(_SPACE).endswith(b","):
                return at
        return 0

    def _tell(self, mended: Mended, offset: int) -> None:
        self._damage.note("repaired", mended.reason, at=offset + mended.at, count=mended.count)

    def _to_list_end(self, buffer: bytes, at: int, stop: int, *, final: bool) -> int:
        """Decode `buffer` up to the bracket that ends the list; the place after it, else 0."""
        for tries, match in enumerate(_LIST_END.finditer(buffer, at, stop)):
            reaches_end = match.end() == len(buffer)
            if reaches_end and not final and match.group().endswith(b"]"):
                return 0  # what follows the bracket is not read yet
            if self._decode(buffer[at : match.start(1)]):
                return match.end(1)
            if tries == _TRIES:
                break
        return 0

    def _one_by_one(self, buffer: bytes, at: int, offset: int, *, final: bool) -> tuple[int, bool]:
        while True:
            gap, at = at, _skip(buffer, at)
            if buffer[at : at + 1] == b"]":
                if buffer.count(b",", gap, at):
                    self._damage.note("repaired", "a trailing comma", at=offset + gap)
                return at + 1, True
            if at == len(buffer):
                return at, False
            if buffer[at : at + 1] == b"}":
                if final and _skip(buffer, at + 1) == len(buffer):
                    self._damage.note("repaired", "the list is not closed", at=offset + at)
                    return at, True
                self._damage.note("repaired", "a stray bracket", at=offset + at)
                at += 1
                continue
            following = next_event(buffer, at + 1)
            if following < 0:
                done, closed = self._last(buffer, at, offset, final=final)
            else:
                done, closed = self._before(buffer, at, following, offset, final=final)
            if closed or done == at:
                return done, closed
            at = done
            if self._hopeless():
                self._damage.note("too-damaged", "more is broken than whole", at=offset + at)
                self.gave_up = True
                return at, False

    def _hopeless(self) -> bool:
        """Whether so much is broken that what follows is noise, such as a misread stream."""
        lost = self._damage.count("events-lost")
        return lost > _FEW_LOST and lost > sum(self._phases.values())

    def _before(
        self, buffer: bytes, at: int, following: int, offset: int, *, final: bool
    ) -> tuple[int, bool]:
        """The event at `at`, where another seems to begin at `following`: taken or left out.

        Returns how far that goes (`at`: read on first), and whether the list ended there.
        """
        end = following
        for tries in range(_TRIES):
            text = buffer[at:end].rstrip(_SPACE).removesuffix(b",")
            # Only the nearest end is worth mending for; the others are for nested arguments.
            if self._decode(text) or (tries == 0 and self._take_one(text, offset + at)):
                return end, False
            later = next_event(buffer, end + 1)
            if later < 0:
                end = len(buffer)
                break
            end = later
        ended = self._to_list_end(buffer, at, end, final=final)
        if ended:
            return ended, True
        if not final and len(buffer) - at < _ENOUGH:
            return at, False
        inner = element_end(buffer[at:following], 0)
        stray = inner > 0 and not buffer[at + inner : following].strip(_SPACE + b",}]")
        if stray and self._take_one(buffer[at : at + inner], offset + at):
            self._damage.note("repaired", "a stray bracket", at=offset + at + inner)
            return following, False
        self._lose(buffer[at:following], offset + at)
        closing = _TOP_LEVEL.search(buffer, at, following)
        return (closing.end(1), True) if closing else (following, False)

    def _last(self, buffer: bytes, at: int, offset: int, *, final: bool) -> tuple[int, bool]:
        """The event that no other follows: how far it goes, and whether the list ended there."""
        closed = self._to_list_end(buffer, at, len(buffer), final=final)
        if closed:
            return closed, True
        while (end := element_end(buffer, at)) > 0 and self._take_one(buffer[at:end], offset + at):
            at = _skip(buffer, end)
            if buffer[at : at + 1] in (b"", b"]", b"}"):
                return end, False
            commas = buffer.count(b",", end, at)
            if commas != 1:
                reason = "an extra comma" if commas else "a missing comma"
                self._damage.note("repaired", reason, at=offset + end)
        if not final and end < 0:
            return at, False
        closing = _TOP_LEVEL.search(buffer, at) or (_LIST_END.search(buffer, at) if final else None)
        if closing:
            text = buffer[at : closing.start(1)]
            if not self._take_one(text.rstrip(_SPACE + b","), offset + at):
                self._lose(text, offset + at)
            return closing.end(1), True
        return at, False

    def _take_one(self, text: bytes, offset: int) -> bool:
        """Take the events in `text`, mended where they need it."""
        if self._decode(text):
            return True
        reason = self._odd(text)
        if not reason:
            return True
        if any(r in reason for r in _NO_MENDING):
            return False
        mended = mend(text)
        if mended.count and (self._decode(mended.text) or not self._odd(mended.text)):
            self._tell(mended, offset)
            return True
        return False

    def _odd(self, text: bytes) -> str:
        """Take valid JSON that the schema refuses: unknown phases are counted, the rest too.

        Returns why it is not valid JSON, "" where it is.
        """
        try:
            values: list[Any] = msgspec.json.decode(b"[" + text + b"]")
        except _DECODE_ERRORS as error:
            return str(error) or type(error).__name__
        for value in values:
            if not isinstance(value, dict):
                self.others += 1
            elif len(values) == 1 or not self._decode(msgspec.json.encode(value)):
                phase = value.get("ph")
                self._phases[phase if isinstance(phase, str) else ""] += 1
        return ""

    def _lose(self, text: bytes, at: int) -> None:
        try:
            msgspec.json.decode(text.rstrip(_SPACE + b","))
        except RecursionError:
            reason = "nested too deep"
        except (msgspec.MsgspecError, ValueError) as error:
            reason = str(error).splitlines()[0]
        else:
            reason = "not an event"
        self._damage.note("events-lost", reason, at=at)


def _skip(buffer: bytes, at: int) -> int:
    """The first place from `at` that is neither space nor comma."""
    match = _GAP.match(buffer, at)
    return match.end() if match else at
