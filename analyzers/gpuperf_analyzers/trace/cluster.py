"""Ranks over a Dask cluster that someone else runs: files are read where the workers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpuperf_analyzers.trace.model import TraceError

CONNECT_SECONDS = 30.0
"""How long a scheduler may take to answer."""


def over_cluster(
    files: Sequence[str], one: Callable[[str], Any], scheduler: Any
) -> Iterator[tuple[str, Any]]:
    """`one` of each file on the workers of `scheduler` (an address or a client), as each is done.

    The scheduler gives the files of a lost worker to another; a result is let go on the cluster
    as soon as it is here.

    Raises
    ------
    TraceError
        Dask is not installed, or the scheduler does not answer.
    """
    try:
        import distributed
    except ImportError:
        raise TraceError("a scheduler needs Dask: pip install 'pytest-gpuperf[dask]'") from None
    # Dask has no annotations: what comes from it is told here.
    connect: Callable[..., Any] = distributed.Client
    as_completed: Callable[..., Any] = distributed.as_completed
    mine = not isinstance(scheduler, distributed.Client)
    try:
        client = connect(scheduler, timeout=CONNECT_SECONDS) if mine else scheduler
    except (OSError, ValueError, TimeoutError) as error:
        raise TraceError(f"{scheduler}: the scheduler does not answer ({error})") from None
    try:
        paths = {client.submit(one, path, pure=False): path for path in files}
        for future in as_completed(list(paths)):
            path = paths.pop(future)  # the last reference: the cluster lets the result go
            lost = future.exception()
            yield path, future.result() if lost is None else _line(path, lost)
    finally:
        if mine:
            client.close()


def _line(path: str, error: BaseException) -> str:
    reason = " ".join(str(error).split())[:200]
    return f"{path}: {type(error).__name__}: {reason}"
