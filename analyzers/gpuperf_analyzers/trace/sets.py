"""Several ranks' traces: which files, whose rank, and work over them within bounded memory."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS, Bounds
from gpuperf_analyzers.trace.model import Finding, Trace, TraceError, TraceSet
from gpuperf_analyzers.trace.reader import read_trace

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A folder, a glob, one file, or a list of files."""

_SUFFIXES = (".json", ".json.gz", ".json.zst", ".json.bz2", ".json.xz", ".json.zip")
_RANK_IN_NAME = (
    re.compile(r"(?:^|[^a-z])rank[-_.]?(\d+)", re.IGNORECASE),
    re.compile(r"(?:^|[^a-z])worker[-_.]?(\d+)", re.IGNORECASE),
)


def find_traces(paths: Paths) -> tuple[str, ...]:
    """The files that `paths` name, numbers in names in numeric order.

    Raises
    ------
    TraceError
        Nothing there.
    """
    if not isinstance(paths, (str, os.PathLike)):
        found = [os.fspath(p) for p in paths]
        if not found:
            raise TraceError("no traces: the list of files is empty")
        return tuple(found)
    name = os.fspath(paths)
    if Path(name).is_dir():
        found = [str(p) for p in Path(name).iterdir() if p.name.endswith(_SUFFIXES)]
        if not found:
            raise TraceError(f"{name}: a folder without traces (*.json, *.json.gz)")
    elif glob.has_magic(name) and not Path(name).exists():
        found = glob.glob(name, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute one
        if not found:
            raise TraceError(f"{name}: no file matches")
    else:
        found = [name]
    return tuple(sorted(found, key=_natural))


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(1, int(p), "") if p.isdigit() else (0, 0, p) for p in parts]


def rank_in_name(path: str) -> int | None:
    """The rank that a file's name gives (``rank3``, ``worker_3``), None where none."""
    for pattern in _RANK_IN_NAME:
        if match := pattern.search(Path(path).name):
            return int(match[1])
    return None


def read_traces(paths: Paths, *, salvage: bool = True, bounds: Bounds = DEFAULT_BOUNDS) -> TraceSet:
    """Read every trace that `paths` names, and find the rank of each.

    Ranks come from ``distributedInfo``; where that is missing or says the same for all, from
    file names; else from the order of names. What was done is in ``rank_source``.

    Raises
    ------
    TraceError
        No file found, or none of them can be read.
    """
    traces: list[Trace] = []
    failed: dict[str, str] = {}
    for path in find_traces(paths):
        try:
            traces.append(read_trace(path, salvage=salvage, bounds=bounds))
        except TraceError as error:  # noqa: PERF203  # one bad file must not cost the others
            failed[path] = str(error)
    if not traces:
        first = next(iter(failed.values()))
        more = f" (and {len(failed) - 1} more files)" if len(failed) > 1 else ""
        raise TraceError(first + more)
    ranks, source = assign_ranks([t.rank for t in traces], [t.path for t in traces])
    placed = [
        t if t.rank == rank else replace(t, rank=rank)
        for t, rank in zip(traces, ranks, strict=True)
    ]
    placed.sort(key=lambda t: -1 if t.rank is None else t.rank)
    return TraceSet(
        traces=tuple(placed),
        failed=failed,
        rank_source=source,
        findings=rank_findings([(t.rank, t.world_size, t.path) for t in placed]),
    )


def assign_ranks(told: Sequence[int | None], paths: Sequence[str]) -> tuple[list[int | None], str]:
    """Ranks of several files, and where they came from.

    One file keeps what it says of itself, None included.
    """
    if all(rank is not None for rank in told) and (len(set(told)) == len(told) or len(told) == 1):
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
    """Duplicate ranks, ranks missing from the world, and worlds that disagree."""
    findings: list[Finding] = []
    counts = Counter(rank for rank, _, _ in ranks if rank is not None)
    twice = sorted(rank for rank, count in counts.items() if count > 1)
    if twice:
        paths = ", ".join(Path(p).name for r, _, p in ranks if r == twice[0])
        findings.append(
            Finding(
                "duplicate-rank",
                f"{len(twice)} ranks are in several files: rank {twice[0]} in {paths}",
                count=len(twice),
                example=f"rank {twice[0]}",
                invalidates=_ACROSS_RANKS,
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
                invalidates=_ACROSS_RANKS,
            )
        )
    elif worlds:
        missing = [r for r in range(min(worlds[0], 2**20)) if r not in counts]
        if missing:
            findings.append(
                Finding(
                    "missing-ranks",
                    f"{len(missing)} of {worlds[0]} ranks have no trace: the first is {missing[0]}",
                    count=len(missing),
                    example=f"rank {missing[0]}",
                    invalidates=_ACROSS_RANKS,
                )
            )
    return tuple(findings)


_ACROSS_RANKS = frozenset({"busbw"})
"""Metrics that need every rank of the job."""
