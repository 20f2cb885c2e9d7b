"""A pickle read as data: dicts, lists, tuples, text, numbers, booleans and None, nothing else.

The standard library's unpickler runs what a pickle says. This one is a machine of its own that
has no instruction to import, to call or to make an object of a class, so there is nothing to
restrict: what such an instruction would do is told in an error. Lengths are checked against what
is left of the data before anything is made of them, and everything that could grow is limited.
"""

from __future__ import annotations

from typing import Any

from gpuperf_analyzers.snapshot.pickle_machine import Limits, run_pickle
from gpuperf_analyzers.snapshot.pickle_operands import PlainPickleError

__all__ = ["Limits", "PlainPickleError", "read_plain_pickle"]


def read_plain_pickle(data: bytes | memoryview, limits: Limits | None = None) -> Any:
    """What the pickle `data` holds.

    Parameters
    ----------
    data
        The whole pickle, of protocol 0 to 5.
    limits
        What it may ask for.

    Raises
    ------
    PlainPickleError
        It is damaged, asks for more than `limits`, or holds anything but dicts with text as keys,
        lists, tuples, text, bytes, numbers, booleans and None.
    """
    limits = limits or Limits()
    found = run_pickle(data, limits)
    _check_depth(found, limits.depth)
    return found


def _check_depth(root: object, depth: int) -> None:
    """Refuse containers that lie deeper than `depth`; each is looked at once."""
    level = [root]
    seen: set[int] = set()
    for _ in range(depth + 1):
        following: list[object] = []
        for value in level:
            if id(value) in seen:
                continue
            seen.add(id(value))
            if type(value) is dict:
                following += [v for v in value.values() if type(v) in (list, dict, tuple)]
            elif type(value) in (list, tuple):
                following += [v for v in value if type(v) in (list, dict, tuple)]  # type: ignore[attr-defined]
        level = following
        if not level:
            return
    raise PlainPickleError(f"containers lie more than {depth} deep within each other")
