"""The document around the events: what stands before the list, and what stands after."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuperf_analyzers.trace.bounds import Bounds
from gpuperf_analyzers.trace.damage import Damage
from gpuperf_analyzers.trace.model import TraceError
from gpuperf_analyzers.trace.salvage import mend
from gpuperf_analyzers.trace.text import Text

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*(\[?)')
_KEY = re.compile(rb'(?:\A|[,{])\s*"((?:[^"\\]|\\.)*)"\s*:', re.DOTALL)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)
_FEW_LOST = 1000
"""Broken entries that are put up with before the rest is given up."""
_KEY_TRIES = 8
"""How many following keys a broken entry's value may reach over."""


@dataclass(frozen=True, slots=True)
class Head:
    """What was read before the first event."""

    metadata: dict[str, Any]
    pending: bytes
    """Text after the list's opening bracket."""
    is_object: bool


def read_head(text: Text, bounds: Bounds, damage: Damage) -> Head:
    """Everything up to the opening bracket of the list of events.

    Raises
    ------
    TraceError
        Not a trace: what it is instead, as far as can be told.
    """
    buffer = text.read()
    while buffer and not buffer.lstrip()[:1] and len(buffer) < bounds.metadata:
        more = text.read(len(buffer))
        if not more:
            break
        buffer += more
    start = buffer.lstrip()
    if start[:1] == b"[":
        return Head({}, start[1:], is_object=False)
    if start[:1] != b"{":
        raise TraceError(f"{damage.path}: {_what_is_it(start, text)}")
    return _object_head(buffer, text, bounds, damage)


def _object_head(buffer: bytes, text: Text, bounds: Bounds, damage: Damage) -> Head:
    searched = 0
    while True:
        for match in _EVENTS_KEY.finditer(buffer, searched):
            if match.end() == len(buffer) and not match[1]:
                break  # the bracket may be in the next chunk
            metadata = _decode_object(buffer[: match.start()])
            if not match[1]:
                if metadata is not None:
                    raise TraceError(
                        f"{damage.path}: traceEvents is not a list: not a Kineto trace"
                    )
            elif metadata is not None:
                return Head(metadata, buffer[match.end() :], is_object=True)
            elif not _inside(buffer[: match.start()]):
                before = buffer[: match.start()]
                return Head(_salvaged(before, 0, damage), buffer[match.end() :], is_object=True)
        searched = max(0, len(buffer) - 64)
        if len(buffer) > bounds.metadata:
            raise TraceError(
                f"{damage.path}: no traceEvents in the first {bounds.metadata >> 20} MiB: "
                "not a Kineto trace"
            )
        more = text.read(len(buffer))
        if not more:
            raise TraceError(f"{damage.path}: {_why_no_events(buffer, text)}")
        buffer += more


def _decode_object(before: bytes) -> dict[str, Any] | None:
    """The entries of `before`, an object's text without its end; None where not valid."""
    body = before.rstrip().removesuffix(b",")
    try:
        decoded = msgspec.json.decode(body + b"}")
    except _DECODE_ERRORS:
        return None
    return decoded if isinstance(decoded, dict) else None


def _inside(before: bytes) -> bool:
    """Whether `before` ends inside a nested value or a string: a key found there is another's."""
    depth = 0
    end = 0
    for match in _TOKEN.finditer(before):
        end = match.end()
        token = before[match.start()]
        depth += (token in b"{[") - (token in b"}]")
    return depth > 1 or b'"' in before[end:]


def _salvaged(before: bytes, offset: int, damage: Damage) -> dict[str, Any]:
    """The entries of a broken object's text that can be read; the others are counted."""
    mended = mend(before)
    if mended.count and (decoded := _decode_object(mended.text)) is not None:
        damage.note("repaired", mended.reason, at=offset + mended.at, count=mended.count)
        return decoded
    body = before.lstrip()
    at = len(before) - len(body)
    if body[:1] == b"{":
        body, at = body[1:], at + 1
    found: dict[str, Any] = {}
    position = 0
    while match := _KEY.search(body, position):
        value, position = _value(body, match.end())
        if value is _BROKEN:
            key = match[1][:40].decode("utf-8", "replace")
            damage.note(
                "metadata-lost",
                f"the value of {key!r} is not JSON",
                at=offset + at + match.end(),
            )
        else:
            found[match[1].decode("utf-8", "replace")] = value
        if damage.count("metadata-lost") > _FEW_LOST:
            break  # noise, not entries
    return found


_BROKEN = object()


def _value(body: bytes, start: int) -> tuple[Any, int]:
    """The value at `start`, and where the search for the next key goes on."""
    first_next = len(body)
    position = start
    for attempt in range(_KEY_TRIES):
        match = _KEY.search(body, position)
        end = match.start() if match else len(body)
        if attempt == 0:
            first_next = end
        try:
            return msgspec.json.decode(body[start:end].strip().removesuffix(b",")), end
        except _DECODE_ERRORS:
            if not match:
                break
            position = match.end()
    return _BROKEN, first_next


def read_tail(
    rest: bytes, text: Text, bounds: Bounds, damage: Damage, *, is_object: bool
) -> dict[str, Any]:
    """The entries after the list of events; `rest` begins after its closing bracket."""
    offset = text.given - len(rest)
    if not is_object:
        _refuse_trailing(rest, offset, text, damage)
        return {}
    buffer = rest
    while (end := _closing(buffer)) < 0:
        if len(buffer) > bounds.metadata:
            damage.note(
                "metadata-lost",
                f"more than {bounds.metadata >> 20} MiB after the events",
                at=offset,
            )
            return {}
        more = text.read(max(len(buffer), 1))
        if not more:
            damage.note("truncated", "the text ends after the events", at=offset + len(buffer))
            return _entries(buffer, offset, damage)
        buffer += more
    _refuse_trailing(buffer[end + 1 :], offset + end + 1, text, damage)
    return _entries(buffer[:end], offset, damage)


def _entries(body: bytes, offset: int, damage: Damage) -> dict[str, Any]:
    stripped = body.lstrip()
    stripped = stripped[1:] if stripped[:1] == b"," else stripped
    if not stripped.strip():
        return {}
    decoded = _decode_object(b"{" + stripped)
    if decoded is not None:
        return decoded
    return _salvaged(stripped, offset + len(body) - len(stripped), damage)


def _closing(buffer: bytes) -> int:
    """Where the object that `buffer` is the end of is closed; -1 where it is not."""
    depth = 1
    for match in _TOKEN.finditer(buffer):
        token = buffer[match.start()]
        depth += (token in b"{[") - (token in b"}]")
        if depth == 0:
            return match.start()
    return -1


def _refuse_trailing(rest: bytes, offset: int, text: Text, damage: Damage) -> None:
    while True:
        body = rest.lstrip(b" \t\r\n\0")
        if body:
            what = "a second document begins" if body[:1] in b"{[" else "text that is no JSON"
            damage.note("trailing-data", what, at=offset + len(rest) - len(body))
            return
        offset += len(rest)
        rest = text.read()
        if not rest:
            return


def _why_no_events(buffer: bytes, text: Text) -> str:
    try:
        decoded = msgspec.json.decode(buffer)
    except _DECODE_ERRORS:
        if text.unpacked.problem:
            return f"{text.unpacked.problem}, before the first event: record or copy it again"
        return (
            f"no traceEvents in {len(buffer)} bytes: cut off before the first event, or not a trace"
        )
    keys = ", ".join(list(decoded)[:5]) if isinstance(decoded, dict) else ""
    return f"JSON without traceEvents (it has: {keys}): not a Kineto trace"


def _what_is_it(start: bytes, text: Text) -> str:
    if not start:
        problem = text.unpacked.problem
        return f"{problem}, before any text" if problem else "empty: nothing was recorded in it"
    if start[:1] == b"<":
        return "an HTML or XML page, not a trace: download the raw file"
    if start[:1] == b"\x80":
        return "a Python pickle, not a trace: give the file that export_chrome_trace wrote"
    if b"ustar" in start[250:270]:
        return "a tar archive: unpack it and read the folder"
    return (
        f"not a Kineto trace: it begins with {start[:16]!r}, not with {{ or [: "
        "give the JSON (or .json.gz) that the profiler exported"
    )
