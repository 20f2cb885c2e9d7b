"""Who is told how far a measurement is: nobody, unless someone watches.

Told between rounds of samples, outside of every timed part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """How far sampling is: samples taken, seconds spent of at most ``limit_s``, the best in µs.

    Of ranks in processes of their own ``what`` says what they do, ``samples`` are the calls that
    rank 0 has done, and no best is known.
    """

    samples: int
    spent_s: float
    limit_s: float
    best_us: float | None = None
    what: str = ""


Watcher = Callable[[Seen], None]
_watchers: list[Watcher] = []


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Tell `watcher` while the block runs; of nested ones the innermost is told."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.pop()


def watched() -> bool:
    """Whether anybody is told."""
    return bool(_watchers)


def tell_of_ranks(what: str, calls: int, spent_s: float, limit_s: float) -> None:
    """Tell who watches what the ranks of a launch do."""
    if _watchers:
        _watchers[-1](Seen(calls, spent_s, limit_s, what=what))


def tell(samples: Sequence[float], spent_s: float, limit_s: float) -> None:
    """Tell who watches, if anybody does."""
    if _watchers and samples:
        _watchers[-1](Seen(len(samples), spent_s, limit_s, min(samples)))
