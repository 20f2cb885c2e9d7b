"""Unpacked bytes as UTF-8 text with a place to point at: byte order marks and UTF-16 go here."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from gpuperf_analyzers.trace.containers import Unpacked


class Text:
    """UTF-8 chunks of a trace, and how many bytes of text were handed out.

    Attributes
    ----------
    given
        Bytes handed out so far. Offsets in findings count from the text's first byte after a
        byte order mark; for UTF-16 they are those of its UTF-8 form.
    """

    def __init__(self, unpacked: Unpacked) -> None:
        self.given = 0
        self.unpacked = unpacked
        self._chunks = iter(unpacked)
        self._recoded = self._recode()

    def read(self, at_least: int = 1) -> bytes:
        """The next chunk, of `at_least` bytes where there are so many; empty at the end."""
        parts: list[bytes] = []
        size = 0
        while size < at_least:
            chunk = next(self._recoded, b"")
            if not chunk:
                break
            parts.append(chunk)
            size += len(chunk)
        self.given += size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _recode(self) -> Iterator[bytes]:
        head = b""
        for chunk in self._chunks:
            head += chunk
            if len(head) >= 4:
                break
        encoding = _utf16(head)
        if encoding:
            yield from self._from_utf16(head, encoding)
            return
        head = head.removeprefix(codecs.BOM_UTF8)
        if head:
            yield head
        yield from self._chunks

    def _from_utf16(self, head: bytes, encoding: str) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        first = decoder.decode(head).removeprefix("\ufeff").encode("utf-8", "replace")
        if first:
            yield first
        for chunk in self._chunks:
            out = decoder.decode(chunk).encode("utf-8", "replace")
            if out:
                yield out
        rest = decoder.decode(b"", final=True).encode("utf-8", "replace")
        if rest:
            yield rest


def _utf16(head: bytes) -> str:
    """The UTF-16 flavour of `head`, "" where it is none: by its mark, or by its zero bytes."""
    if head.startswith(codecs.BOM_UTF16_LE) or head[1:2] == b"\0" != head[0:1]:
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE) or head[0:1] == b"\0" != head[1:2]:
        return "utf-16-be"
    return ""
