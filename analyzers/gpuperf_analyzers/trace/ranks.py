"""Whose trace is whose: the rank of each of several files, and what does not fit together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from gpuperf_analyzers.trace.model import Finding

_RANK_IN_NAME = (
    re.compile(r"(?:^|[^a-z])rank[-_.]?(\d+)", re.IGNORECASE),
    re.compile(r"(?:^|[^a-z])worker[-_.]?(\d+)", re.IGNORECASE),
)
ACROSS_RANKS = frozenset({"busbw"})
"""Metrics that need every rank of the job."""


def rank_in_name(path: str) -> int | None:
    """The rank that a file's name gives (``rank3``, ``worker_3``), None where none."""
    for pattern in _RANK_IN_NAME:
        if match := pattern.search(_name(path)):
            return int(match[1])
    return None


def _name(path: str) -> str:
    return PurePosixPath(path.replace("\\", "/")).name


def assign_ranks(told: Sequence[int | None], paths: Sequence[str]) -> tuple[list[int | None], str]:
    """Ranks of several files, and where they came from.

    ``distributedInfo`` where it tells every file apart; else the names of the files where they
    do; else what is told; else the order. One file keeps what it says of itself, None included.
    """
    if all(rank is not None for rank in told) and len(set(told)) == len(told):
        return list(told), "distributedInfo"
    named = [rank_in_name(p) for p in paths]
    if all(rank is not None for rank in named) and len(set(named)) == len(named):
        return list(named), "file name"
    if any(rank is not None for rank in told):
        return list(told), "distributedInfo"
    if len(paths) == 1:
        return [None], ""
    return list(range(len(paths))), "order"


def rank_findings(
    ranks: Sequence[tuple[int | None, int | None, str]],
) -> tuple[Finding, ...]:
    """Ranks in several files, ranks missing from the world, and worlds that disagree.

    `ranks` holds (rank, world size, path) of each file.
    """
    counts = Counter(rank for rank, _, _ in ranks if rank is not None)
    findings: list[Finding] = []
    twice = sorted(rank for rank, count in counts.items() if count > 1)
    if twice:
        names = ", ".join(_name(p) for r, _, p in ranks if r == twice[0])
        findings.append(
            Finding(
                "duplicate-rank",
                f"{len(twice)} ranks are in several files: rank {twice[0]} in {names}",
                count=len(twice),
                example=f"rank {twice[0]}",
                invalidates=ACROSS_RANKS,
            )
        )
    worlds = sorted({w for _, w, _ in ranks if w})
    if len(worlds) > 1:
        findings.append(
            Finding(
                "world-size-differs",
                f"the files are of different jobs: world sizes {worlds}",
                count=len(worlds),
                example=f"world sizes {worlds[0]} and {worlds[1]}",
                invalidates=ACROSS_RANKS,
            )
        )
    elif worlds:
        findings += _missing(worlds[0], counts)
    return tuple(findings)


def _missing(world: int, counts: Counter[int]) -> list[Finding]:
    there = sum(1 for rank in counts if rank < world)
    if there >= world:
        return []
    first = next(rank for rank in range(world) if rank not in counts)
    return [
        Finding(
            "missing-ranks",
            f"{world - there} of {world} ranks have no trace: the first is rank {first}",
            count=world - there,
            example=f"rank {first}",
            invalidates=ACROSS_RANKS,
        )
    ]
