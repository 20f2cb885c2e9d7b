"""ELU in several forms of the same thing: op by op, torch's own, compiled, and in Triton."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.compiled import compiled
from pytest_gpuperf.workloads.dtypes import SIZES, values
from pytest_gpuperf.workloads.room import COMPARED, WIDE, made
from pytest_gpuperf.workloads.triton_here import require_triton
from pytest_gpuperf.workloads.workload import Prepared, Workload, close, one_of, whole

if TYPE_CHECKING:
    import torch

FORMS = ("eager", "builtin", "compiled", "triton")
_ALLOWED = {"fp64": 1e-14, "fp32": 1e-6, "fp16": 2e-3, "bf16": 2e-2}


def elementwise(n: int, *, form: str = "eager", dtype: str = "fp32") -> Workload:
    """ELU of n values: x where x > 0, else exp(x) − 1.

    Bytes ``2·s·n`` in every form; eager's five ops move several times that, which is what the
    fused forms save. No FLOP by the rules: an exponential is no multiply-add.

    Parameters
    ----------
    n
        How many values.
    form
        ``eager``: compare, exp, subtract, choose, op by op; ``builtin``: torch's own ``elu``;
        ``compiled``: the eager form through ``torch.compile``; ``triton``: one Triton kernel.
    dtype
        ``fp32``, ``fp16``, ``bf16``.

    Raises
    ------
    ValueError
        A size, type or form that there is not.
    """
    whole(n=n)
    one_of("dtype", dtype, tuple(_ALLOWED))
    one_of("form", form, FORMS)
    return Workload(
        name=f"elu-{n}-{dtype}-{form}",
        build=partial(_build, n, dtype, form),
        bytes=2 * SIZES[dtype] * n,
        items=n,
        dtype=dtype,
        byte_formula="2·s·n",
        peak_bytes=_peak(n, dtype),
    )


def eager(x: Any) -> Any:
    """ELU op by op."""
    torch = import_torch()
    return torch.where(x > 0, x, torch.exp(x) - 1)


def _peak(n: int, dtype: str) -> int:
    """Input and result; the input in float64, and the comparison, while it is checked."""
    same = dtype == "fp64"
    checked = (0 if same else WIDE) + COMPARED - (WIDE if same else 0)
    return max(made(dtype, n), (2 * SIZES[dtype] + checked) * n)


def _build(n: int, dtype: str, form: str, device: torch.device) -> Prepared:
    torch = import_torch()
    x = values((n,), device, dtype)
    untimed = ""
    step: Callable[[], Any]
    if form == "triton":
        untimed = require_triton(device)
        from pytest_gpuperf.workloads.triton_elu import elu

        step = partial(elu, x, torch.empty_like(x))
    elif form == "compiled":
        step = partial(compiled(eager), x)
    else:
        step = partial(eager if form == "eager" else torch.nn.functional.elu, x)
    return Prepared(step, partial(_check, form, step, x, _ALLOWED[dtype]), untimed)


def _check(form: str, step: Callable[[], Any], x: Any, allowed: float) -> float:
    """Hold the form against exp(x) − 1 in float64."""
    torch = import_torch()
    wide = x.to(torch.float64)
    return close(f"elu, {form}", step(), torch.where(wide > 0, wide, torch.expm1(wide)), allowed)
