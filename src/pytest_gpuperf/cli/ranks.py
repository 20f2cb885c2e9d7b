"""What the commands that measure on several ranks have in common."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gpuperf_analyzers.display import harmless

_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does, so that no folder is left behind."""

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(_TERMINATED)

    former = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def own_world_size(asked: int | None) -> int:
    """The ranks asked for; where none were, as many as torchrun started, else 2."""
    from pytest_gpuperf.session.ddp_joined import torchrun_place

    if asked is not None:
        return asked
    place = torchrun_place()
    return 2 if place is None else place.world_size


def failed(command: str, message: str, status: int) -> int:
    """Say why there is no result, and give back the exit status.

    Of the ranks of a surrounding torchrun all fail alike, and only rank 0 says so.
    """
    from pytest_gpuperf.session.ddp_joined import torchrun_place

    place = torchrun_place()
    if place is None or place.rank == 0:
        text = message.removeprefix("gpuperf.ddp: ").removeprefix("gpuperf: ")
        lines = (harmless(line, 4096) for line in text.split("\n"))  # what a rank raised is in it
        sys.stderr.write(f"gpuperf {command}: " + "\n".join(lines) + "\n")
    return status
