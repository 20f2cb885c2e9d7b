"""A kernel of one's own, checked against a reference before it is timed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.workload import Prepared, Workload, WrongResultError, close

if TYPE_CHECKING:
    import torch

Inputs = Callable[["torch.device"], tuple[Any, ...]]


def kernel(
    fn: Callable[..., Any],
    *,
    reference: Callable[..., Any],
    inputs: Inputs,
    name: str = "",
    flops: int | None = None,
    bytes: int | None = None,  # noqa: A002 - the marker's own word
    items: int | None = None,
    dtype: str = "fp32",
    atol: float = 1e-5,
    rtol: float = 1e-5,
) -> Workload:
    """A Triton or CUDA kernel, or anything else that is called with tensors and returns one.

    FLOP and bytes are as declared. It is called on ``inputs(device)`` and must return, within
    ``atol + rtol·max|reference|``, what `reference` returns on the same ones; only then is it
    timed.

    Parameters
    ----------
    fn
        What is measured: launches the kernel and returns its result, a tensor or several.
    reference
        Returns what is right, from copies of the same inputs.
    inputs
        Makes the inputs on a device.
    name
        What it is called; by default as the function is.
    flops, bytes, items
        Of one call; None where there are none to speak of.
    dtype
        Type that the FLOP are made in.
    atol, rtol
        What may differ, beside the largest value of the reference.

    Raises
    ------
    ValueError
        A tolerance below 0.
    """
    if atol < 0 or rtol < 0 or atol + rtol == 0:
        raise ValueError(f"gpuperf: atol={atol!r}, rtol={rtol!r} allow no difference at all")
    return Workload(
        name=name or str(getattr(fn, "__name__", type(fn).__name__)),
        build=partial(_build, fn, reference, inputs, atol, rtol),
        flops=flops,
        bytes=bytes,
        items=items,
        dtype=dtype,
        flop_formula="as declared",
        byte_formula="as declared",
        counted=False,
    )


def _build(
    fn: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Inputs,
    atol: float,
    rtol: float,
    device: torch.device,
) -> Prepared:
    given = inputs(device)
    given = given if isinstance(given, tuple) else (given,)
    step = partial(fn, *given)

    def check() -> float:
        # A kernel that works in place must not change what the reference is given.
        copies = [g.detach().clone() if hasattr(g, "detach") else g for g in given]
        expected = _tensors(reference(*copies), "the reference")
        found = _tensors(step(), "the kernel")
        if len(found) != len(expected):
            raise WrongResultError(
                f"gpuperf: the kernel returns {len(found)} tensors, its reference {len(expected)}"
            )
        shares = [_share(f, e, atol, rtol) for f, e in zip(found, expected, strict=True)]
        return max(shares, default=0.0)

    return Prepared(step, check)


def _share(found: Any, expected: Any, atol: float, rtol: float) -> float:
    largest = float(expected.detach().abs().max()) if expected.numel() else 0.0
    return close("the kernel", found, expected, atol + rtol * largest)


def _tensors(value: object, whose: str) -> list[Any]:
    torch = import_torch()
    found = list(value) if isinstance(value, (tuple, list)) else [value]
    if not found or not all(isinstance(v, torch.Tensor) for v in found):
        raise WrongResultError(
            f"gpuperf: {whose} returns {type(value).__name__}, and a result is a tensor or several"
        )
    return found
