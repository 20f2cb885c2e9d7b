"""Traces named on the command line, read; and the one line that says why one cannot be."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import harmless

if TYPE_CHECKING:
    from gpuperf_analyzers.trace.model import TraceSet

_MOST_FOR_ONE = 4
"""One process cuts the text for the others, and is busy with that for about so many."""

USAGE = 2
"""Exit status of wrong usage and of input that cannot be read."""
INTERRUPTED = 130
"""Exit status of work that Ctrl-C ended, as a shell reports it; what was done is told."""


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the positional paths and how to read them."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="FILE|DIR",
        help="trace files of torch.profiler (.json, .json.gz), or folders of one file a rank",
    )
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add ``--no-salvage``, ``--no-cache``, ``--jobs`` and ``--scheduler``."""
    parser.add_argument(
        "--no-salvage",
        action="store_true",
        help="refuse a truncated or damaged trace instead of reading what can be had",
    )
    parser.add_argument(
        "--jobs",
        type=whole_number,
        metavar="N",
        help="processes that read (default: 1 for the traces of several ranks; for one that is "
        f"long as many as there are CPUs, up to {_MOST_FOR_ONE})",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="a Dask scheduler (tcp://HOST:8786) whose workers read the traces instead",
    )
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="read every trace anew and keep no columns of it in the cache directory",
    )


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """How `args` say that traces are read, as keywords of :func:`read_inputs`."""
    return {
        "salvage": not args.no_salvage,
        "jobs": args.jobs,
        "scheduler": args.scheduler,
        "cache": not args.no_cache,
    }


def whole_number(text: str) -> int:
    """`text` as a whole number of 1 or more.

    Raises
    ------
    argparse.ArgumentTypeError
        It is none.
    """
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def read_inputs(
    paths: Sequence[str],
    *,
    salvage: bool,
    jobs: int | None = None,
    scheduler: str | None = None,
    cache: bool = False,
) -> TraceSet | None:
    """The traces of `paths` as one set; None, after a line for each file, where none can be read.

    A file of a set that cannot be read is said and left out. Ctrl-C leaves those that were read,
    after one line that says how many.
    """
    from gpuperf_analyzers.trace import TraceError, read_traces
    from gpuperf_analyzers.trace.files import find_traces
    from pytest_gpuperf.cli.progress import progress

    try:
        files = dict.fromkeys(file for path in paths for file in find_traces(path))
        with progress("reading", len(files)) as told:
            found = read_traces(
                list(files), salvage=salvage, processes=jobs or _processes(len(files)),
                scheduler=scheduler, cache=cache, told=told, partial_result=True,
            )  # fmt: skip
    except TraceError as error:
        complain(str(error))
        return None
    unread = [message for message in found.failed.values() if not _of_an_interrupt(message)]
    for message in unread:
        complain(message)
    if len(unread) < len(found.failed):
        complain(f"interrupted: {len(found.traces)} of {len(files)} files are read")
    return found if found.traces else None


def interrupted(failed: Mapping[str, str]) -> bool:
    """Whether Ctrl-C is why some of what is in ``failed`` is there."""
    return any(map(_of_an_interrupt, failed.values()))


def status_of(failed: Mapping[str, str]) -> int:
    """The exit status of a set that lacks `failed`: 0; 130 after Ctrl-C, 2 for unreadable files."""
    if interrupted(failed):
        return INTERRUPTED
    return USAGE if failed else 0


def _of_an_interrupt(message: str) -> bool:
    """Whether it is what the analyzers say of a trace that Ctrl-C kept them from."""
    return message.endswith((": not read: interrupted", ": not analyzed: interrupted"))


def _processes(files: int) -> int:
    """How many processes read `files` where nobody said.

    Ranks cost an interpreter with all its imports each, and memory for as many traces at once.
    """
    if files > 1:
        return 1
    mine = getattr(os, "sched_getaffinity", None)
    return min(len(mine(0)) if mine else os.cpu_count() or 1, _MOST_FOR_ONE)


def complain(message: str) -> None:
    """One line on the standard error."""
    sys.stderr.write(f"gpuperf: {harmless(message, 500)}\n")
