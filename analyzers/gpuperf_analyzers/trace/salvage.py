"""Broken JSON, mended where that is certain and cut around where it is not.

Works on one block of events at a time, and only on those that do not decode: the tokenizer
here is a hundred times slower than the decoder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_STRING = rb'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_MEND = re.compile(
    rb'(?P<string>"(?:[^"\\]|\\.)*")'
    rb"|(?P<number>[-+]?\b(?:NaN|nan|Infinity|infinity|inf|Inf)\b)"
    rb"|(?P<comma>,(?=\s*(?:[}\],]|\Z)))"
    rb"|(?P<gap>\}(?=\s*\{))"
    rb"|(?P<huge>(?<![\d.])-?\d+(?:\.\d+)?[eE]\+?\d{3,})",
    re.DOTALL,
)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4})|(.))', re.DOTALL)
_NEXT_EVENT = re.compile(rb',\s*(\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|bp|s)"\s*:)')


@dataclass(slots=True)
class Mended:
    """A block of text after mending: what was wrong first, where, and how many places."""

    text: bytes
    count: int = 0
    at: int = -1
    reason: str = ""

    def note(self, at: int, reason: str) -> None:
        """Count one place; the earliest is kept as the example."""
        self.count += 1
        if self.at < 0 or at < self.at:
            self.at, self.reason = at, reason


def mend(block: bytes) -> Mended:
    """`block` with what has one reading made valid JSON.

    Bad UTF-8 becomes U+FFFD; NaN, infinities and numbers out of float64 become null; control
    characters and backslashes that escape nothing are escaped; commas before a closing bracket
    go. Positions are those of `block`, but for UTF-8 damage before them.
    """
    mended = Mended(block)
    text = block
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        fixed = text.decode("utf-8", "replace").encode("utf-8")
        bad = text.decode("utf-8", "replace").count("\ufffd") - text.count(b"\xef\xbf\xbd")
        mended.count, mended.at, mended.reason = bad, error.start, "invalid UTF-8"
        text = fixed

    def replace(match: re.Match[bytes]) -> bytes:
        kind, found = match.lastgroup, match.group()
        if kind == "string":
            better = _mend_string(found)
            if better is not found:
                control = _CONTROL.search(found) is not None
                mended.note(
                    match.start(),
                    "an unescaped control character" if control else "an invalid escape",
                )
            return better
        if kind == "comma":
            mended.note(match.start(), "a trailing comma")
            return b""
        if kind == "gap":
            mended.note(match.end(), "a missing comma")
            return b"},"
        if kind == "huge" and abs(float(found)) != float("inf"):
            return found
        mended.note(match.start(), f"{found[:20].decode()} is not a JSON number")
        return b"null"

    mended.text = _MEND.sub(replace, text)
    return mended


def _mend_string(string: bytes) -> bytes:
    if b"\\" in string:
        fixed = _ESCAPE.sub(_mend_escape, string)
        fixed = _mend_surrogates(fixed)
    else:
        fixed = string
    if _CONTROL.search(fixed):
        fixed = _CONTROL.sub(lambda m: b"\\u%04x" % m.group()[0], fixed)
    return string if fixed == string else fixed


def _mend_escape(match: re.Match[bytes]) -> bytes:
    return match.group() if match.group(3) is None else b"\\\\" + match.group(3)


_SURROGATES = re.compile(
    rb"(\\\\)|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def _mend_surrogates(string: bytes) -> bytes:
    return _SURROGATES.sub(lambda m: m.group() if m.lastindex else b"\\ufffd", string)


def element_end(block: bytes, start: int) -> int:
    """End of the object or array at `start`, by its brackets; -1 where the text ends in it."""
    depth = 0
    for match in _TOKEN.finditer(block, start):
        token = block[match.start()]
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
        if depth <= 0:
            return match.end()
    return -1


def next_event(block: bytes, after: int) -> int:
    """Start of the next text that looks like an event's beginning, -1 where there is none."""
    match = _NEXT_EVENT.search(block, after)
    return match.start(1) if match else -1
