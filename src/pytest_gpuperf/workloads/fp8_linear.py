"""A linear layer whose three products are fp8, each tensor scaled by its own largest value."""

from __future__ import annotations

from typing import Any

import torch

_FORWARD, _BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
"""Weights and activations need digits, gradients need range (Micikevicius et al., 2022)."""


def _cut(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """`x` in fp8 and what to multiply it with to get it back."""
    largest = torch.finfo(dtype).max
    scale = (x.abs().amax().float() / largest).clamp(min=1e-12)
    return (x.float() / scale).to(dtype), scale


def _product(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """``a @ b`` in bf16: the first operand row by row, the second column by column."""
    left, right = a[0].contiguous(), b[0].t().contiguous().t()
    found: torch.Tensor = torch._scaled_mm(  # noqa: SLF001 - torch has no public name for it
        left, right, a[1], b[1], out_dtype=torch.bfloat16
    )
    return found


class Fp8Linear(torch.autograd.Function):  # type: ignore[misc]
    """``x weight.T``; backward ``grad weight`` and ``grad.T x``, all of them in fp8."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The layer's result in bf16."""
        ctx.save_for_backward(x, weight)
        w8, scale = _cut(weight, _FORWARD)
        return _product(_cut(x, _FORWARD), (w8.t(), scale))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Gradients of the input, where one is asked for, and of the weight."""
        x, weight = ctx.saved_tensors
        g8, scale = _cut(grads[0], _BACKWARD)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = _product((g8, scale), _cut(weight, _FORWARD)).to(x.dtype)
        of_weight = _product((g8.t(), scale), _cut(x, _FORWARD)).to(weight.dtype)
        return of_x, of_weight
