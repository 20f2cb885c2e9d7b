"""Traces of any size, made by repeating a real one with shifted times, ids and step numbers."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path

_NUMBER = re.compile(
    r'("ts": |"correlation": |"External id": |"id": |"Ev Idx": |ProfilerStep#)(\d+(?:\.\d+)?)'
)
_TIME = '"ts": '
_STEP = "ProfilerStep#"


def read_text(path: Path) -> str:
    """The text of `path`, inflated where it is packed."""
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def repeat(source: Path, target: Path, size: int) -> int:
    """Write `source` repeated to about `size` bytes of JSON to `target`; how many copies.

    Each copy begins a millisecond after the one before ended; correlation ids, external ids and
    flow ids go on counting, so that every launch keeps its own kernel.
    """
    text = read_text(source)
    begin = text.index("[", text.index('"traceEvents"')) + 1
    end = json.JSONDecoder().raw_decode(text, begin - 1)[1] - 1
    head, events, tail = text[:begin], text[begin:end].strip().rstrip(","), text[end:]
    parts = _NUMBER.split(events)
    literals, keys, numbers = parts[0::3], parts[1::3], parts[2::3]
    times = [_nanoseconds(n) for k, n in zip(keys, numbers, strict=True) if k == _TIME]
    span = max(times) - min(times) + 1_000_000
    ids = [int(n) for k, n in zip(keys, numbers, strict=True) if k not in {_TIME, _STEP}]
    steps = [int(n) for k, n in zip(keys, numbers, strict=True) if k == _STEP]
    id_step = max(ids, default=0) + 1
    step_step = max(steps) - min(steps) + 1 if steps else 0
    copies = max(1, round(size / len(events)))
    with target.open("w") as out:
        out.write(head)
        for copy in range(copies):
            out.write(",\n" if copy else "")
            out.write(literals[0])
            for key, number, literal in zip(keys, numbers, literals[1:], strict=True):
                out.write(key)
                if key == _TIME:
                    ns = _nanoseconds(number) + copy * span
                    out.write(f"{ns // 1000}.{ns % 1000:03d}" if "." in number else str(ns // 1000))
                else:
                    out.write(str(int(number) + copy * (step_step if key == _STEP else id_step)))
                out.write(literal)
        out.write(tail)
    return copies


def _nanoseconds(number: str) -> int:
    whole, _, fraction = number.partition(".")
    return int(whole) * 1000 + int(fraction.ljust(3, "0")[:3] or 0)


def pack(source: Path, target: Path) -> None:
    """`source` as gzip, at the level that profilers use."""
    with source.open("rb") as text, gzip.open(target, "wb", compresslevel=6) as out:
        while chunk := text.read(2**20):
            out.write(chunk)


def inflated_size(path: Path) -> int:
    """Bytes of text in `path`."""
    inflate, size = zlib.decompressobj(31), 0
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            size += len(inflate.decompress(chunk))
    return size
