"""One training step of a stack of linear layers, in each of the precisions that people train in."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.dtypes import require_fp8, values
from pytest_gpuperf.workloads.room import WIDE, made
from pytest_gpuperf.workloads.workload import (
    Prepared,
    Workload,
    WrongResultError,
    one_of,
    whole,
)

if TYPE_CHECKING:
    import torch

PRECISIONS = ("fp32", "fp16", "bf16", "fp8")
_ALLOWED = {"fp32": 6e-2, "fp16": 6e-2, "bf16": 0.15, "fp8": 0.5}
"""Allowed distance of all gradients from those in float64, over their length; fp32 may be TF32.

Most of it is activations so near 0 that rounding turns them on or off: a share of about the type's
step, and a distance of its root.
"""
_FP8_MULTIPLE = 16
_SCALER = "the gradient scaler reads on the host whether a gradient overflowed: a sync each step"


def training_step(
    precision: str = "fp32",
    *,
    batch: int = 64,
    width: int = 256,
    hidden: int = 1024,
    blocks: int = 2,
) -> Workload:
    """Forward, backward and SGD with momentum of L blocks ``relu(x W1ᵀ) W2ᵀ``, mean square error.

    FLOP ``12·L·B·W·H − 2·B·W·H``: three products a weight, but for the gradient of the input,
    which nobody asks for. Bytes are not given: what is kept for backward is the framework's.

    Parameters
    ----------
    precision
        ``fp32``; ``fp16``, autocast with a gradient scaler, whose sync shows as a host sync;
        ``bf16``, autocast; ``fp8``, products through ``_scaled_mm`` where the device has them.
    batch, width, hidden, blocks
        B, W, H, L. For fp8 multiples of 16.

    Raises
    ------
    ValueError
        A size or precision that there is not.
    """
    one_of("precision", precision, PRECISIONS)
    whole(batch=batch, width=width, hidden=hidden, blocks=blocks)
    if precision == "fp8" and any(n % _FP8_MULTIPLE for n in (batch, width, hidden)):
        raise ValueError("gpuperf: batch, width and hidden of fp8 products are multiples of 16")
    return Workload(
        name=f"train-{blocks}x{batch}x{width}x{hidden}-{precision}",
        build=partial(_build, precision, (batch, width, hidden, blocks)),
        flops=(12 * blocks - 2) * batch * width * hidden,
        items=batch,
        dtype=precision,
        flop_formula="12·L·B·W·H − 2·B·W·H",
        peak_bytes=_peak(batch, width, hidden, blocks),
        notes=(_SCALER,) if precision == "fp16" else (),
    )


def _peak(batch: int, width: int, hidden: int, blocks: int) -> int:
    """Weights, batch and target in fp32; the check has them, and the gradients, in float64.

    Beside both gradients' P values stand the weights, or, before the second gradients are there,
    what their forward pass keeps.
    """
    weights = 2 * blocks * width * hidden
    kept = batch * blocks * (hidden + width)
    there = made("fp32", weights, 2 * batch * width)
    return there + WIDE * (2 * weights + max(weights, kept))


def _build(precision: str, sizes: tuple[int, ...], device: torch.device) -> Prepared:
    if precision == "fp8":
        require_fp8(device)
    training = Training(precision, sizes, device)
    return Prepared(training.step, training.check)


class Training:
    """The weights, their optimizer and one batch."""

    def __init__(self, precision: str, sizes: tuple[int, ...], device: torch.device) -> None:
        torch = import_torch()
        batch, width, hidden, blocks = sizes
        self.precision, self.device = precision, device
        self.weights = [
            (values((out, of), device, seed=10 + i) / math.sqrt(of)).requires_grad_()
            for i, (out, of) in enumerate([(hidden, width), (width, hidden)] * blocks)
        ]
        self.x = values((batch, width), device, seed=1)
        self.target = values((batch, width), device, seed=2)
        self.optimizer = torch.optim.SGD(self.weights, lr=1e-3, momentum=0.9)
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")

    def step(self) -> object:
        """Forward, backward, update; the loss, on the device, comes back."""
        self.optimizer.zero_grad()
        loss = self._loss(self.weights, self.x, self.target)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def check(self) -> float:
        """Distance of all gradients from those in float64, over what is allowed.

        Raises
        ------
        WrongResultError
            It is above 1, or not a number.
        """
        torch = import_torch()
        # Scaled as in a step: gradients of a mean would underflow in fp16.
        scaled = self.scaler.scale(self._loss(self.weights, self.x, self.target))
        scale = self.scaler.get_scale() if self.scaler.is_enabled() else 1.0
        found = [g.double() / scale for g in torch.autograd.grad(scaled, self.weights)]
        wide = [w.detach().double().requires_grad_() for w in self.weights]
        loss = (forward(wide, self.x.double()) - self.target.double()).square().mean()
        expected = torch.autograd.grad(loss, wide)
        apart = sum((f - e).square().sum() for f, e in zip(found, expected, strict=True))
        length = sum(e.square().sum() for e in expected)
        share = float((apart / length).sqrt()) / _ALLOWED[self.precision]
        if not share <= 1:
            raise WrongResultError(
                f"gpuperf: gradients in {self.precision} are {share:.2g} times as far from those "
                "in float64 as is allowed"
            )
        return share

    def _loss(self, weights: list[Any], x: Any, target: Any) -> Any:
        with self._autocast():
            found = forward(weights, x, fp8=self.precision == "fp8")
        return (found.float() - target).square().mean()

    def _autocast(self) -> AbstractContextManager[Any]:
        torch = import_torch()
        types = {"fp16": torch.float16, "bf16": torch.bfloat16}
        if self.precision not in types:
            return nullcontext()
        made: AbstractContextManager[Any] = torch.autocast(
            self.device.type, dtype=types[self.precision]
        )
        return made


def forward(weights: list[Any], x: Any, *, fp8: bool = False) -> Any:
    """The layers; an activation after every first one of a block."""
    functional = import_torch().nn.functional
    linear = functional.linear
    if fp8:
        from pytest_gpuperf.workloads.fp8_linear import Fp8Linear

        linear = Fp8Linear.apply
    for index, weight in enumerate(weights):
        x = linear(x, weight)
        x = x if index % 2 else functional.relu(x)
    return x
