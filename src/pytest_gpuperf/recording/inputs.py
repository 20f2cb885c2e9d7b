"""Inputs that flatter: tensors that are all zeros, or one value throughout.

On a GPU the multipliers of such data toggle fewer bits, so that the chip takes less power and
keeps higher clocks than with real data. On a CPU memory that was asked for as zeros and never
written is one page for all of it, which the cache holds.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

_FEWEST_ELEMENTS = 1024
_LOOKED_AT = 256
_MOST_COMPARED = 2**26
_MOST_TENSORS = 64
_EFFECT = {
    "cuda": "fewer bits toggle, so power is lower and clocks are higher than with real data",
    "cpu": "the cache may hold what real data would fetch from memory",
}


def input_notes(step: Callable[..., object], device: torch.device) -> tuple[str, ...]:
    """A note on each floating-point input of `step` on `device` that holds one value only.

    Inputs are the tensors that `step` was given (``functools.partial``), closes over, has as
    defaults, or names among its module's globals; alone or in lists, tuples and dicts.
    """
    torch = import_torch()
    notes = []
    seen: set[int] = set()
    for value in inputs_of(step):
        if len(seen) >= _MOST_TENSORS:
            break
        # By type: asking a lazy proxy for its class would run it.
        if not issubclass(type(value), torch.Tensor) or id(value) in seen:
            continue
        seen.add(id(value))
        held = _only_value(torch, value, device)
        if held is not None:
            shape = "x".join(str(size) for size in value.shape)
            what = "all zeros" if held == 0 else f"{held:g} throughout"
            effect = _EFFECT.get(device.type, _EFFECT["cuda"])
            notes.append(f"an input of shape {shape} is {what}: {effect}")
    return tuple(dict.fromkeys(notes))


def inputs_of(step: Callable[..., object]) -> Iterator[Any]:
    """What `step` was given, closes over, has as defaults or names among its module's globals."""
    function: Any = step
    while isinstance(function, functools.partial):
        yield from _flat([*function.args, *function.keywords.values()])
        function = function.func
    function = inspect.unwrap(function) if inspect.isfunction(function) else function
    if not inspect.isfunction(function):
        return
    yield from _flat(list(function.__defaults__ or ()))
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # noqa: PERF203 - an empty cell has nothing to give
            continue
    yield from _flat(cells)
    names = (function.__globals__.get(name) for name in function.__code__.co_names)
    yield from _flat(list(names))


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if type(value) in (list, tuple):
            yield from value
        elif type(value) is dict:
            yield from value.values()
        else:
            yield value


def _only_value(torch: Any, tensor: Any, device: torch.device) -> float | None:
    """The one value that all elements of `tensor` have; None where they have several."""
    try:
        if tensor.device.type != device.type or not tensor.is_floating_point():
            return None
        if tensor.layout != torch.strided or tensor.numel() < _FEWEST_ELEMENTS:
            return None
        with torch.no_grad():
            some = _spread(torch, tensor)
            first = float(some[0])
            # The whole is compared only where a part says that it may be worth it.
            if not bool((some == some[0]).all()):
                return None
            if tensor.numel() <= _MOST_COMPARED and not bool((tensor == some[0]).all()):
                return None
            return first
    except (RuntimeError, NotImplementedError, TypeError):
        # Fake, quantized and meta tensors, dtypes without comparison: nothing to tell.
        return None


def _spread(torch: Any, tensor: Any) -> Any:
    """Some elements of `tensor`, spread over all of it, without a copy of the whole."""
    left = torch.arange(_LOOKED_AT, device=tensor.device) * (tensor.numel() // _LOOKED_AT)
    index = []
    for size in reversed(tensor.shape):
        index.append(left % size)
        left = left // size
    return tensor.detach()[tuple(reversed(index))]
