"""What a forward pass does, seen below autograd: operations, and the storages between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.estimate.kept import ATTENTION
from gpuperf_analyzers.estimate.spec import ModelSpec, Operation, Storage, Tensor

if TYPE_CHECKING:
    from torch import nn

_HEADS_APART = 4
"""Dimensions of attention's tensors where heads are one: batch, heads, rows, width."""
_TRANSPOSED = 6
"""Argument of ``aten::convolution`` that says whether it is transposed."""


class Watch:
    """Collects operations and storages while a module runs.

    Storages are known by their address in C++, so all tensors are kept until the end: a freed
    storage's address would be given to the next one.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._index: dict[int, int] = {}
        self._storages: list[Storage] = []
        self._operations: list[Operation] = []
        self._alive: list[Any] = []
        self._modules: list[str] = [""]
        self._muted = False

    def know(self, tensor: Any, role: Any, name: str) -> int:
        """The index of the storage of `tensor`, noted as of `role` where it is new."""
        self._alive.append(tensor)
        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001 - a meta storage has no data pointer to be told by
        if key not in self._index:
            self._index[key] = len(self._storages)
            trained = role == "parameter" and bool(tensor.requires_grad)
            self._storages.append(
                Storage(int(storage.nbytes()), role, name, int(tensor.numel()), trained)
            )
        return self._index[key]

    def spec(self, name: str) -> ModelSpec:
        """What was seen."""
        return ModelSpec(name, tuple(self._storages), tuple(self._operations))

    @contextmanager
    def of(self, model: nn.Module) -> Iterator[None]:
        """Watch `model` within the block; its modules' names go with the operations."""
        with ExitStack() as stack:
            for name, module in model.named_modules():
                enter = module.register_forward_pre_hook(self._entering(name))
                leave = module.register_forward_hook(self._leaving, always_call=True)
                stack.callback(enter.remove)
                stack.callback(leave.remove)
            stack.enter_context(_attention_mode(self._torch, self))
            stack.enter_context(_op_mode(self._torch, self))
            yield

    def _entering(self, name: str) -> Any:
        def hook(_module: Any, _args: Any) -> None:
            self._modules.append(name)

        return hook

    def _leaving(self, _module: Any, _args: Any, _output: Any) -> None:
        if len(self._modules) > 1:
            self._modules.pop()

    def attention(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One fused attention; what the meta device makes it of is not written down."""
        self._muted = True
        try:
            out = func(*args, **kwargs)
            if out.dim() == _HEADS_APART:
                # Fused kernels write row by row, all heads of a row together, so that joining
                # the heads is a view; what stands in for them on the meta device does not.
                out = out.transpose(1, 2).contiguous().transpose(1, 2)
        finally:
            self._muted = False
        named = [kwargs.get(key) for key in ("query", "key", "value")[len(args) :]]
        self.saw(ATTENTION, (*args[:3], *named), out, {})
        return out

    def saw(self, op: str, args: tuple[Any, ...], out: Any, flags: dict[str, int]) -> None:
        """Write down one operation."""
        if self._muted:
            return
        inputs = tuple(self._tensor(a) for a in _flat(self._torch, args))
        outputs = [self._tensor(o) for o in _flat(self._torch, (out,))]
        made = tuple(o for o in outputs if o is not None)
        self._operations.append(Operation(op, self._modules[-1], inputs, made, flags))

    def _tensor(self, value: Any) -> Tensor | None:
        if not isinstance(value, self._torch.Tensor):
            return None
        index = self.know(value, "made", "")
        return Tensor(index, tuple(int(s) for s in value.shape), bool(value.requires_grad))


def _flat(torch: Any, args: tuple[Any, ...]) -> Iterator[Any]:
    """Arguments in order; of a list of tensors each."""
    for arg in args:
        if isinstance(arg, (list, tuple)) and any(isinstance(a, torch.Tensor) for a in arg):
            yield from arg
        else:
            yield arg


def _op_mode(torch: Any, watch: Watch) -> Any:
    """A mode that hands each op below autograd to `watch`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class OpMode(TorchDispatchMode):  # type: ignore[misc] # torch is not followed by mypy
        def __torch_dispatch__(
            self,
            func: Any,
            types: Any,
            args: Any = (),
            kwargs: Any = None,
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            name = func.name()
            transposed = name == "aten::convolution" and bool(args[_TRANSPOSED])
            watch.saw(name, args, out, {"transposed": 1} if transposed else {})
            return out

    del torch
    return OpMode()


def _attention_mode(torch: Any, watch: Watch) -> Any:
    """A mode that takes a fused attention for one operation."""
    from torch.overrides import TorchFunctionMode

    fused = torch.nn.functional.scaled_dot_product_attention

    class AttentionMode(TorchFunctionMode):  # type: ignore[misc] # likewise
        def __torch_function__(
            self,
            func: Any,
            types: Any,
            args: Any = (),
            kwargs: Any = None,
        ) -> Any:
            if func is fused:
                return watch.attention(func, args, kwargs or {})
            return func(*args, **(kwargs or {}))

    return AttentionMode()
