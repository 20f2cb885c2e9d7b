"""Ranks over a Dask cluster that someone else runs: files are read where the workers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gpuperf_analyzers.trace.model import TraceError

CONNECT_SECONDS = 30.0
"""How long a scheduler may take to answer."""


def over_cluster(
    files: Sequence[str], one: Callable[[str], Any], scheduler: Any
) -> Iterator[tuple[str, Any]]:
    """`one` of each file on the workers of `scheduler` (an address or a client), as each is done.

    The scheduler gives the files of a lost worker to another; a result is let go on the cluster
    as soon as it is here. A file that was lost with several workers may only have waited beside
    the one that kills them, so each of these is tried again by itself.

    Raises
    ------
    TraceError
        Dask is not installed, or the scheduler does not answer.
    """
    killed: list[str] = []
    with connected(scheduler) as client:
        import distributed

        # Dask has no annotations: what comes from it is told here.
        as_completed: Callable[..., Any] = distributed.as_completed
        paths = {client.submit(one, path, pure=False): path for path in files}
        for future in as_completed(list(paths)):
            path = paths.pop(future)  # the last reference: the cluster lets the result go
            if isinstance(future.exception(), distributed.KilledWorker):
                killed.append(path)
            else:
                yield path, _outcome(path, future)
        for path in killed:
            yield path, _outcome(path, client.submit(one, path, pure=False))


@contextmanager
def connected(scheduler: Any) -> Iterator[Any]:
    """A client of `scheduler`, an address or a client; one made here is closed at the end.

    Raises
    ------
    TraceError
        Dask is not installed, or the scheduler does not answer.
    """
    try:
        import distributed
    except ImportError:
        raise TraceError("a scheduler needs Dask: pip install 'pytest-gpuperf[dask]'") from None
    connect: Callable[..., Any] = distributed.Client
    mine = not isinstance(scheduler, distributed.Client)
    try:
        client = connect(scheduler, timeout=CONNECT_SECONDS) if mine else scheduler
    except (OSError, ValueError, TimeoutError) as error:
        raise TraceError(f"{scheduler}: the scheduler does not answer ({error})") from None
    try:
        yield client
    finally:
        if mine:
            client.close()


def _outcome(path: str, future: Any) -> Any:
    """What became of `path`: its result, or the line that says why there is none."""
    lost = future.exception()
    return future.result() if lost is None else _line(path, lost)


def _line(path: str, error: BaseException) -> str:
    reason = " ".join(str(error).split())[:200]
    return f"{path}: {type(error).__name__}: {reason}"
