"""A sweep from its grid to its outcome: the points that are left, here or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.ranks import Target
from pytest_gpuperf.sweep.failure import CRASH
from pytest_gpuperf.sweep.grid import Grid
from pytest_gpuperf.sweep.journal import SweepJournal, header
from pytest_gpuperf.sweep.points import PointResult, RefusedError, Settings, run_point
from pytest_gpuperf.sweep.result import Outcome
from pytest_gpuperf.sweep.target import fingerprint

if TYPE_CHECKING:
    import torch

Todo = list[tuple[int, dict[str, Any]]]
Seen = Callable[[PointResult, int], None]


class SweepError(Exception):
    """The sweep cannot be made or continued: one line with the mend."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to sweep.

    Attributes
    ----------
    step
        The function as the user named it.
    target
        Where it is.
    grid
        The points.
    settings
        How each is run.
    journal
        The file of what is done.
    resume
        Go on where the journal ends.
    scheduler
        A Dask scheduler's address or client, whose workers run the points; None runs them here.
    """

    step: str
    target: Target
    grid: Grid
    settings: Settings
    journal: Path
    resume: bool = False
    scheduler: Any = None


def sweep(
    request: Request,
    device: torch.device,
    *,
    seen: Seen = lambda _result, _done: None,
    said: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Run every point that is not in the journal, and tell what is known of all.

    Ctrl-C ends it early, with what is done in the outcome. Whatever ends it, no process of a point
    of this machine is left.

    Parameters
    ----------
    request
        What to sweep.
    device
        What stands in the journal as the machine; each point tells its own too.
    seen
        Called with each result and how many points are done.
    said
        Told what the user should know at once.

    Raises
    ------
    SweepError
        The function cannot be used.
    JournalError
        There is nothing that can be resumed.
    OSError
        The journal cannot be written.
    """
    from pytest_gpuperf.recording import environment

    here = environment(device)
    sha256 = fingerprint(request.target)
    head = header(request.step, sha256, request.grid, request.settings, here)
    journal = SweepJournal(request.journal, head, request.grid)
    if request.resume:
        journal.resume()
    else:
        aside = journal.begin()
        if aside is not None:
            said(f"an unfinished sweep was there: moved to {aside} (--resume continues one)")
    points = request.grid.points()
    todo = [(i, values) for i, values in enumerate(points) if i not in journal.results]
    stopped, lost = "", _lost(request)
    run = _here if request.scheduler is None else _on_cluster
    try:
        with closing(run(request, sha256, todo)) as results:
            for result in results:
                journal.add(result)
                seen(result, len(journal.results))
    except KeyboardInterrupt:
        stopped = "interrupted"
    except lost as error:
        stopped = str(error)
    except RefusedError as error:
        raise SweepError(str(error)) from None
    finally:
        # Finished only once its result is kept: until then it can be resumed. One without a point
        # that an error ended is of no use.
        journal.close(finished=not stopped and not journal.results)
    return Outcome(
        step=request.step, grid=request.grid, settings=request.settings, environment=here,
        results=tuple(journal.results[i] for i in sorted(journal.results)), stopped=stopped,
        replayed=journal.replayed,
    )  # fmt: skip


def _lost(request: Request) -> tuple[type[Exception], ...]:
    """What says that the scheduler went away, where there is one."""
    if request.scheduler is None:
        return ()
    from pytest_gpuperf.sweep.cluster import SchedulerLostError

    return (SchedulerLostError,)


def _here(request: Request, sha256: str, todo: Todo) -> Generator[PointResult, None, None]:
    """The results of `todo` on this machine, one after another."""
    for index, values in todo:
        yield run_point(request.target, sha256, index, values, request.settings)


def _on_cluster(request: Request, sha256: str, todo: Todo) -> Generator[PointResult, None, None]:
    """The results of `todo` as the workers of a Dask cluster have them."""
    from pytest_gpuperf.sweep.cluster import over_workers

    values_of = dict(todo)
    run = partial(run_point, request.target, sha256, settings=request.settings)
    # Closed here and not when the collector comes: what runs on the workers is to end now.
    with closing(over_workers(todo, run, request.scheduler)) as outcomes:
        for index, found in outcomes:
            if isinstance(found, PointResult):
                yield found
            else:
                yield PointResult(index, values_of[index], CRASH, str(found))
