"""Work over several ranks' traces: one after the other, over processes, or over a cluster.

Each rank is read, handed to the work, and let go before the next, so that memory follows what
works at once and not the number of ranks. A rank that fails costs itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any, Generic, TypeVar

from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS, Bounds
from gpuperf_analyzers.trace.files import Paths, find_traces
from gpuperf_analyzers.trace.model import Finding, Trace, TraceError, TraceSet
from gpuperf_analyzers.trace.ranks import assign_ranks, rank_findings

__all__ = ["RankResult", "RankResults", "find_traces", "map_ranks", "read_traces"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RankResult(Generic[T]):
    """What the work made of one rank's trace."""

    path: str
    rank: int | None
    world_size: int | None
    result: T


@dataclass(frozen=True, slots=True)
class RankResults(Generic[T]):
    """What the work made of every rank that could be read.

    Attributes
    ----------
    ranks
        In the order of ranks.
    failed
        Path to the one line that says why there is no result.
    rank_source
        ``distributedInfo``, ``file name``, ``order``, "" for one file that does not say.
    findings
        Of the set: ranks missing, ranks twice, worlds that differ.
    """

    ranks: tuple[RankResult[T], ...]
    failed: Mapping[str, str]
    rank_source: str
    findings: tuple[Finding, ...]


Told = Callable[[int, int, str], None]
"""Takes how many files are done, of how many, and the last one's path."""


def read_traces(
    paths: Paths,
    *,
    salvage: bool = True,
    bounds: Bounds = DEFAULT_BOUNDS,
    processes: int = 1,
    scheduler: Any = None,
    cache: bool = False,
    told: Told | None = None,
    partial_result: bool = False,
) -> TraceSet:
    """Read every trace that `paths` names, and find the rank of each.

    Ranks come from ``distributedInfo``; where that is missing or says the same for several,
    from file names; else from the order of names. What was done is in ``rank_source``. The
    other parameters are those of :func:`map_ranks`, which keeps less than the columns where
    there are too many ranks to hold them all.

    Raises
    ------
    TraceError
        No file found, or none of them can be read.
    """
    found = map_ranks(
        paths, _whole, salvage=salvage, bounds=bounds, processes=processes, scheduler=scheduler,
        cache=cache, told=told, partial_result=partial_result,
    )  # fmt: skip
    traces = tuple(
        r.result if r.result.rank == r.rank else replace(r.result, rank=r.rank) for r in found.ranks
    )
    return TraceSet(
        traces=traces,
        failed=found.failed,
        rank_source=found.rank_source,
        findings=found.findings,
    )


def _whole(trace: Trace) -> Trace:
    return trace


def map_ranks(
    paths: Paths,
    work: Callable[[Trace], T],
    *,
    salvage: bool = True,
    bounds: Bounds = DEFAULT_BOUNDS,
    processes: int = 1,
    scheduler: Any = None,
    cache: bool = False,
    told: Told | None = None,
    partial_result: bool = False,
) -> RankResults[T]:
    """`work` done on every trace that `paths` names.

    Parameters
    ----------
    paths
        A folder, a glob, a list, or URLs (``s3://…``) that the workers can open.
    work
        Takes a trace, gives what is kept of it. With processes or a scheduler it and its result
        are pickled: a function of a module.
    processes
        How many at once on this machine; 1 stays in this process. More start fresh interpreters;
        over several files these import the calling script, which needs its
        ``if __name__ == "__main__":``. Where there are fewer files, several decode one.
    scheduler
        A Dask scheduler (``tcp://host:8786``) or client instead. A worker that is lost loses no
        rank: another does it.
    cache
        Keep the columns in the user's cache, and take them from there.
    told
        Called after each file with how many are done, of how many, and its path.
    partial_result
        Whether Ctrl-C keeps the ranks that are done; the others are in ``failed``.

    Raises
    ------
    TraceError
        No file found, or no result at all.
    """
    files = find_traces(paths)
    one = partial(
        _one_rank, work=work, salvage=salvage, bounds=bounds, cache=cache,
        processes=max(1, processes // len(files)),
    )  # fmt: skip
    outcomes: Iterator[tuple[str, Any]]
    if scheduler is not None:
        from gpuperf_analyzers.trace.cluster import over_cluster

        outcomes = over_cluster(files, one, scheduler)
    elif processes > 1 and len(files) > 1:
        outcomes = _over_processes(files, one, min(processes, len(files)))
    else:
        outcomes = ((path, one(path)) for path in files)
    done: dict[str, _Done[T]] = {}
    failed: dict[str, str] = {}
    try:
        for path, outcome in outcomes:
            if isinstance(outcome, _Done):
                done[path] = outcome
            else:
                failed[path] = outcome
            if told is not None:
                told(len(done) + len(failed), len(files), path)
    except KeyboardInterrupt:
        if not (partial_result and done):
            raise
        left = (path for path in files if path not in done and path not in failed)
        failed |= {path: f"{path}: not read: interrupted" for path in left}
    order = {path: i for i, path in enumerate(files)}
    return _in_order(
        {p: done[p] for p in sorted(done, key=order.__getitem__)},
        {p: failed[p] for p in sorted(failed, key=order.__getitem__)},
    )


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    rank: int | None
    world_size: int | None
    result: T


def _in_order(done: Mapping[str, _Done[T]], failed: Mapping[str, str]) -> RankResults[T]:
    if not done:
        first = next(iter(failed.values()))
        more = f" (and {len(failed) - 1} more files)" if len(failed) > 1 else ""
        raise TraceError(first + more)
    ranks, source = assign_ranks([d.rank for d in done.values()], list(done))
    results = [
        RankResult(path, rank, d.world_size, d.result)
        for (path, d), rank in zip(done.items(), ranks, strict=True)
    ]
    results.sort(key=lambda r: -1 if r.rank is None else r.rank)
    return RankResults(
        ranks=tuple(results),
        failed=failed,
        rank_source=source,
        findings=rank_findings([(r.rank, r.world_size, r.path) for r in results]),
    )


def _one_rank(
    path: str,
    *,
    work: Callable[[Trace], T],
    salvage: bool,
    bounds: Bounds,
    cache: bool,
    processes: int,
) -> _Done[T] | str:
    """The work on one file, or the line that says why there is none."""
    from gpuperf_analyzers.trace.cache import read_cached
    from gpuperf_analyzers.trace.reader import read_trace

    read = read_cached if cache else read_trace
    try:
        trace = read(path, salvage=salvage, bounds=bounds, processes=processes)
        return _Done(trace.rank, trace.world_size, work(trace))
    except TraceError as error:
        return str(error)
    except MemoryError:
        return f"{path}: out of memory: read fewer ranks at once"
    except Exception as error:  # noqa: BLE001  # one rank's defect must not cost the others
        reason = " ".join(str(error).split())
        return f"{path}: {type(error).__name__}: {reason}: the work on this rank failed"


def _over_processes(
    files: Sequence[str], one: Callable[[str], Any], processes: int
) -> Iterator[tuple[str, Any]]:
    """`one` of each file in `processes` interpreters.

    Only as many files are handed out as are worked on. When a process dies, those at work are
    suspects: each is tried once more, alone, so that the one that dies again is named.
    """
    waiting = list(files)
    suspects: list[str] = []
    while waiting:
        yield from _until_death(waiting, suspects, one, processes)
    for path in suspects:
        again: list[str] = []
        yield from _until_death([path], again, one, 1)
        if again:
            yield path, f"{path}: the process that read it died (out of memory?): read it alone"


def _until_death(
    waiting: list[str], suspects: list[str], one: Callable[[str], Any], processes: int
) -> Iterator[tuple[str, Any]]:
    """Work off `waiting` until it is empty or a process dies; then who was at work is a suspect."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running: dict[Future[Any], str] = {}
        while waiting or running:
            while waiting and len(running) < processes:
                path = waiting.pop(0)
                running[pool.submit(one, path)] = path
            ready, _ = wait(running, return_when=FIRST_COMPLETED)
            outcomes = [(running.pop(future), _outcome(future)) for future in ready]
            yield from ((path, outcome) for path, outcome in outcomes if outcome is not None)
            dead = [path for path, outcome in outcomes if outcome is None]
            if dead:
                suspects += [*dead, *running.values()]
                return


def _outcome(future: Future[Any]) -> Any:
    """The result of `future`; None where its process died."""
    try:
        return future.result()
    except BrokenProcessPool:
        return None
    except Exception as error:  # noqa: BLE001  # what cannot be pickled is told as a failure
        return f"the result cannot be handed back ({type(error).__name__}: {error})"
