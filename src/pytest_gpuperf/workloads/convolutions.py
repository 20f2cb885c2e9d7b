"""Convolutions, full and depthwise: a C-th of the FLOP, but nowhere near a C-th of the time."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.dtypes import SIZES, rounding, values
from pytest_gpuperf.workloads.room import WIDE, made
from pytest_gpuperf.workloads.workload import Prepared, Workload, close, one_of, whole

if TYPE_CHECKING:
    import torch


def convolution(
    batch: int,
    inputs: int,
    outputs: int,
    side: int,
    *,
    kernel: int = 3,
    groups: int = 1,
    dtype: str = "fp32",
) -> Workload:
    """A square 2-D convolution of stride 1 that keeps the side (odd kernels).

    FLOP ``2·B·S²·O·(I/g)·F²``; bytes ``s·(B·I·S² + O·(I/g)·F² + B·O·S²)``, F being the kernel's
    side and g the groups.

    Parameters
    ----------
    batch, inputs, outputs, side
        B, I, O, S.
    kernel, groups
        F, g.
    dtype
        ``fp64``, ``fp32``, ``fp16``, ``bf16``.

    Raises
    ------
    ValueError
        A size or type that there is not, an even kernel, groups that do not divide the channels.
    """
    whole(batch=batch, inputs=inputs, outputs=outputs, side=side, kernel=kernel, groups=groups)
    one_of("dtype", dtype, ("fp64", "fp32", "fp16", "bf16"))
    if kernel % 2 == 0:
        raise ValueError(f"gpuperf: kernel={kernel} is even, and the side would change")
    if inputs % groups or outputs % groups:
        raise ValueError(f"gpuperf: {groups} groups do not divide {inputs} and {outputs} channels")
    image, weight = batch * side**2, outputs * (inputs // groups) * kernel**2
    name = f"conv-{batch}x{inputs}to{outputs}x{side}-k{kernel}"
    return Workload(
        name=f"{name}-g{groups}-{dtype}" if groups > 1 else f"{name}-{dtype}",
        build=partial(_build, (batch, inputs, outputs, side, kernel, groups), dtype),
        flops=2 * image * weight,
        bytes=SIZES[dtype] * (image * (inputs + outputs) + weight),
        items=batch,
        dtype=dtype,
        flop_formula="2·B·S²·O·(I/g)·F²",
        byte_formula="s·(B·I·S² + O·(I/g)·F² + B·O·S²)",
        peak_bytes=max(
            made(dtype, image * inputs, weight),
            # The first image's first group is checked in float64.
            SIZES[dtype] * (image * (inputs + outputs) + weight)
            + WIDE * (side**2 * (inputs + outputs) + weight) // groups,
        ),
    )


def depthwise(
    batch: int, channels: int, side: int, *, kernel: int = 3, dtype: str = "fp32"
) -> Workload:
    """A convolution with a group a channel: 1/C of a full one's FLOP, the same images to move.

    FLOP ``2·B·S²·C·F²``; bytes ``s·(2·B·C·S² + C·F²)``.

    Raises
    ------
    ValueError
        As for :func:`convolution`.
    """
    return convolution(batch, channels, channels, side, kernel=kernel, groups=channels, dtype=dtype)


def _build(sizes: tuple[int, ...], dtype: str, device: torch.device) -> Prepared:
    batch, inputs, outputs, side, kernel, groups = sizes
    x = values((batch, inputs, side, side), device, dtype, seed=1)
    weight = values((outputs, inputs // groups, kernel, kernel), device, dtype, seed=2)
    conv2d = import_torch().nn.functional.conv2d
    step = partial(conv2d, x, weight, padding=kernel // 2, groups=groups)
    return Prepared(step, partial(_check, step, x, weight, groups, dtype))


def _check(step: Any, x: Any, weight: Any, groups: int, dtype: str) -> float:
    """Hold the first image's first group against sums of shifted images in float64."""
    torch = import_torch()
    outputs, inputs, kernel, _ = weight.shape
    side, pad = x.shape[-1], kernel // 2
    first = torch.nn.functional.pad(x[0, :inputs].to(torch.float64), [pad] * 4)
    weights = weight[: outputs // groups].to(torch.float64)
    expected = sum(
        torch.einsum("oi,ihw->ohw", weights[:, :, r, c], first[:, r : r + side, c : c + side])
        for r in range(kernel) for c in range(kernel)
    )  # fmt: skip
    allowed = 8 * math.sqrt(inputs * kernel**2) * rounding(dtype, x.device)
    return close("convolution", step()[0, : outputs // groups], expected, allowed)
