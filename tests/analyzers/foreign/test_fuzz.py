"""Mutated logs of other tools: each is read, or refused in one line that names it."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from time import perf_counter

import pytest

from foreign_samples import ALL
from gpuperf_analyzers.foreign import ForeignError, read_foreign
from mutations import mutated

SEEDS = 120
SLOWEST_S = 5.0


@pytest.mark.parametrize("name", sorted(ALL))
def test_mutations_are_read_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log.txt"
    whole = ALL[name].encode()
    read, told = 0, []
    for seed in range(SEEDS):
        path.write_bytes(mutated(whole, random.Random(zlib.crc32(name.encode()) + seed)))
        begin = perf_counter()
        try:
            found = read_foreign(path)
        except ForeignError as error:
            told.append(str(error))
        else:
            read += 1
            for values in found.parts.values():
                for value in values.values():
                    assert (value.value is None) == (value.absent_reason is not None)
        assert perf_counter() - begin < SLOWEST_S
    assert all(str(path) in line and "\n" not in line for line in told)
    assert read > 0, "some damage leaves the file readable"
