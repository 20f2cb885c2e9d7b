"""One search on this device, from its options to its outcome, whatever ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.mamf.journal import Journal
from pytest_gpuperf.mamf.ranges import Grid, Shape
from pytest_gpuperf.mamf.result import Outcome, efficiency
from pytest_gpuperf.mamf.search import Effort, Search
from pytest_gpuperf.mamf.timing import MatmulTimer, TimeOverError, check_dtype, fp32_matmuls
from pytest_gpuperf.recording.busy_cpus import watch_others
from pytest_gpuperf.recording.devices import device_title
from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.host_environment import environment
from pytest_gpuperf.recording.mamf_cache import CachedMamf, mamf_machine

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.hookspecs import Peak


@dataclass(frozen=True, slots=True)
class Options:
    """What to search, and how.

    Attributes
    ----------
    dtype
        One of :data:`~pytest_gpuperf.recording.mamf_cache.DTYPES`.
    grid
        The shapes.
    journal
        The file of what was timed.
    resume
        Go on where the journal ends.
    exhaustive
        Time every shape.
    effort
        Calls of a shape.
    shape_s
        About how long one question may take; three calls are always timed.
    max_time_s
        When the search ends, at the next call of a matmul; None for never.
    seed
        Of the choice of shapes.
    """

    dtype: str
    grid: Grid
    journal: Path
    resume: bool = False
    exhaustive: bool = False
    effort: Effort = field(default_factory=Effort)
    shape_s: float = 5.0
    max_time_s: float | None = None
    seed: int = 0


Watch = Callable[[Search, Shape | None], None]
"""Told before each timing, with the shape that is in hand, and after it, with none."""


def find_maximum(
    options: Options,
    device: torch.device,
    peaks: Iterable[Peak],
    *,
    seen: Watch = lambda *_: None,
    said: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Search, and tell what was found; Ctrl-C and the end of the time given end it early.

    Parameters
    ----------
    options
        What to search.
    device
        Where.
    peaks
        Dense peaks, for the efficiency.
    seen
        Called before and after each timing.
    said
        Told what the user should know at once.

    Raises
    ------
    RecordingError
        The device cannot do it.
    JournalError
        There is nothing that can be resumed.
    OSError
        The journal cannot be written.
    """
    check_dtype(options.dtype, device, options.grid)
    until = None if options.max_time_s is None else perf_counter() + options.max_time_s
    timer = MatmulTimer(device, options.dtype, shape_s=options.shape_s, until=until)
    units = _units(device)
    journal = Journal(options.journal, _header(options, device), timer)
    if options.resume:
        journal.resume()
    else:
        aside = journal.begin()
        if aside is not None:
            said(f"an unfinished search was there: moved to {aside} (--resume continues one)")

    def asked(shape: Shape, calls: int) -> tuple[float, ...]:
        seen(search, shape)
        if until is not None and perf_counter() > until:
            raise TimeOverError
        return journal.time(shape, calls)

    search = Search(
        asked, options.grid, units=units, effort=options.effort, exhaustive=options.exhaustive,
        seed=options.seed, seen=lambda found: seen(found, None),
    )  # fmt: skip
    stopped = ""
    others = watch_others(siblings=False)
    try:
        with fp32_matmuls(options.dtype, device):
            search.run()
    except KeyboardInterrupt:
        stopped = "interrupted"
    except TimeOverError:
        stopped = "max-time"
    finally:
        # Finished only once its result is kept: until then it can be resumed.
        journal.close(finished=False)
    best = search.best
    name = device_title(device)
    return Outcome(
        search=search, grid=options.grid, dtype=options.dtype, device=name,
        machine=mamf_machine(device), environment=environment(device), effort=options.effort,
        seed=options.seed, exhaustive=options.exhaustive, timer=timer.name, l2=timer.l2,
        stopped=stopped, spent_s=journal.spent_s, replayed=journal.replayed,
        failures=timer.failures, notes=(*timer.notes, *others()),
        efficiency=efficiency(
            best.rate / 1e12 if best else 0.0, options.dtype, name, peaks, sms=units
        ),
        disturbed=best is not None and best.shape in timer.disturbed,
    )  # fmt: skip


def to_keep(outcome: Outcome) -> CachedMamf:
    """What of a finished search goes into the cache.

    Raises
    ------
    RecordingError
        No shape could be run.
    """
    best = outcome.search.best
    if best is None:
        why = next(iter(outcome.failures.values()), "the search was ended before the first")
        raise RecordingError(f"gpuperf: no shape was timed: {why}")
    return CachedMamf(
        dtype=outcome.dtype,
        machine=outcome.machine,
        tflops=best.rate / 1e12,
        shape=best.shape,
        shapes=len(outcome.grid),
        timed=len(outcome.search.tried),
        searched=outcome.grid.words(),
    )


def _units(device: torch.device) -> int | None:
    if device.type != "cuda":
        return None
    return int(import_torch().cuda.get_device_properties(device).multi_processor_count)


def _header(options: Options, device: torch.device) -> dict[str, Any]:
    """What must be equal for a search to be continued; K is the side that is reduced."""
    grid = options.grid
    return {
        "machine": mamf_machine(device),
        "dtype": options.dtype,
        "preset": grid.name,
        "m": grid.m,
        "n": grid.n,
        "k": grid.k,
        "exhaustive": options.exhaustive,
        "calls": [options.effort.first, options.effort.last],
        "shape_s": options.shape_s,
        "seed": options.seed,
    }
