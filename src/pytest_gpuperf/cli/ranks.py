"""What the commands that measure on several ranks have in common."""

from __future__ import annotations

import sys


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
        sys.stderr.write(f"gpuperf {command}: {text}\n")
    return status
