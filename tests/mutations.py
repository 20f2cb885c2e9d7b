"""Seeded damage to files: bytes flipped, cut, spliced, repeated."""

from __future__ import annotations

import gzip
import random
import re

_NUMBER = re.compile(rb"(?<=[:\[ ])-?\d+(?:\.\d+)?")
_HOSTILE = (
    b"-1", b"0", b"1e308", b"-1e308", b"1e-320", b"99999999999999999999999",
    b"-9223372036854775808", b"9223372036854775807", b"18446744073709551615", b"null", b"true",
    b'"7"', b'"x"', b"[]", b"{}", b"[[1]]",
    b"NaN", b"-Infinity", b'"\\ud800"', b'"' + b"y" * 5000 + b'"',
    b"[" * 300 + b"]" * 300,
)  # fmt: skip


def mutated(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to four kinds of damage."""
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        data = rng.choice(_KINDS)(data, rng)
    if rng.random() < 0.1:
        data = gzip.compress(data, 1)
        if rng.random() < 0.5:
            data = rng.choice((_flip, _cut))(data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 50))):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _drop(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 10, 1000, 20_000)) :]


def _splice(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randrange(len(data)) for _ in range(2))
    at = rng.randrange(len(data))
    return data[:at] + data[a : min(b, a + 20_000)] + data[at:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    part = data[at : at + rng.choice((1, 2, 30, 400))]
    return data[:at] + part * rng.choice((2, 10, 100)) + data[at:]


def _number(data: bytes, rng: random.Random) -> bytes:
    places = [m.span() for m in _NUMBER.finditer(data)]
    for begin, end in sorted(
        rng.sample(places, min(len(places), rng.choice((1, 5)))), reverse=True
    ):
        data = data[:begin] + rng.choice(_HOSTILE) + data[end:]
    return data


def _token(data: bytes, rng: random.Random) -> bytes:
    old, new = rng.choice(
        (
            (b"}", b""), (b"]", b""), (b'"', b""), (b",", b""), (b"{", b"{{"), (b'"ph"', b'"hp"'),
            (b'"X"', b'"B"'), (b'"X"', b'"E"'), (b'"args"', b'"ts"'), (b"kernel", b"cpu_op"),
            (b"cpu_op", b"kernel"), (b"\n", b"\0"), (b'"ts"', b'"dur"'),
            (b"ProfilerStep#", b"Step"),
        )
    )  # fmt: skip
    places = [m.start() for m in re.finditer(re.escape(old), data)]
    if not places:
        return data
    at = rng.choice(places)
    if rng.random() < 0.2:
        return data.replace(old, new)
    return data[:at] + new + data[at + len(old) :]


_KINDS = (_flip, _cut, _drop, _splice, _repeat, _number, _number, _token, _token)
