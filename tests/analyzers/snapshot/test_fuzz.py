"""Mutated snapshots: each is read or refused in one line, quickly, in little memory."""

from __future__ import annotations

import pickle
import random
import resource
from pathlib import Path
from time import perf_counter

import pytest

from gpuperf_analyzers.snapshot import (
    SnapshotError,
    device_memory,
    diff_snapshots,
    fit,
    live_sites,
    past_of,
    read_snapshot,
)
from snapshots import example

_INTERESTING = (
    0x00, 0x7F, 0x80, 0xFF, *b"(]}).ReuashjqrcRibopPQ0 12NXTUBCSVLIFG",
    0x8A, 0x8B, 0x8C, 0x8D, 0x8E, 0x93, 0x94, 0x95, 0x96,
)  # fmt: skip


def _mutated(data: bytes, rng: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(found))
        how = rng.randrange(6)
        if how == 0:
            found[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            found[at] = rng.choice(_INTERESTING)
        elif how == 2:
            del found[at : at + rng.randrange(1, 9)]
        elif how == 3:
            found[at:at] = bytes(rng.choice(_INTERESTING) for _ in range(rng.randrange(1, 9)))
        elif how == 4:
            length = rng.randrange(1, 200)
            found[at:at] = found[at : at + length] * rng.randrange(1, 20)
        else:
            del found[max(at, 2) :]
        if not found:
            return b"."
    return bytes(found)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_mutations_are_read_or_refused(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps(example(), protocol)
    path = tmp_path / "s.pickle"
    whole = read_snapshot_of(path, data)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told: list[str] = []
    for seed in range(200):
        begin = perf_counter()
        path.write_bytes(_mutated(data, random.Random(seed * 7 + protocol)))
        try:
            found = read_snapshot(path)
        except SnapshotError as error:
            told.append(str(error))
        else:
            for device in found.devices[:3]:
                device_memory(found, device)
                past_of(found, device)
                fit(found, device, 2**22)
            live_sites(found)
            diff_snapshots(whole, found)
        assert perf_counter() - begin < 5
    assert 20 < len(told) < 200
    assert all(line.startswith(str(path)) and "\n" not in line for line in told)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert grown_kib < 100 * 1024


def read_snapshot_of(path: Path, data: bytes) -> object:
    path.write_bytes(data)
    return read_snapshot(path)
