"""``torch.compile``, or one line that says why it cannot work here."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from typing import Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.workload import UnavailableError

_COMPILERS = ("c++", "g++", "clang++")


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` compiled for the shapes that it is called with.

    Raises
    ------
    UnavailableError
        Without a GPU and a C++ compiler there is nothing to compile with.
    """
    torch = import_torch()
    if not torch.cuda.is_available() and not any(map(shutil.which, _COMPILERS)):
        raise UnavailableError(
            "gpuperf: torch.compile needs a C++ compiler on a CPU, and none of "
            f"{', '.join(_COMPILERS)} is on the path"
        )
    with warnings.catch_warnings():
        # torch's compiler imports parts of torch that warn of their own age.
        warnings.simplefilter("ignore")
        made: Callable[..., Any] = torch.compile(function, dynamic=False)
    return made
