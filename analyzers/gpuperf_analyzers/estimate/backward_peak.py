"""How much is alive at the worst moment of a backward pass: what is kept, and gradients on the way.

Walked from the last operation to the first. An operation's gradients of its inputs are made
while those of its outputs are alive; then those go, and what the operation kept. A sum passes
its gradient on as it is, so nothing is made there.
"""

from __future__ import annotations

from gpuperf_analyzers.estimate.kept import base_name, kept_tensors
from gpuperf_analyzers.estimate.spec import ModelSpec, Operation, Tensor

_PASSED_ON = frozenset(
    {"add", "sub", "view", "reshape", "_unsafe_view", "t", "transpose", "permute", "expand",
     "unsqueeze", "squeeze", "detach", "alias", "sum", "mean"}
)  # fmt: skip
"""Ops whose gradient is the incoming one or a view of it, where the sizes are equal."""


def backward_peak(spec: ModelSpec) -> int:
    """Bytes of kept activations and of their gradients at the worst moment of a backward pass.

    Gradients of parameters are not in it.
    """
    alive, last_use = _kept_at_first(spec)
    gradients = _Gradients(spec)
    worst = now = sum(alive.values())
    for number in range(len(spec.operations) - 1, -1, -1):
        op = spec.operations[number]
        if op.differentiable:
            gradients.of(op)
            worst = max(worst, now + gradients.bytes)
            gradients.done(op, number)
        for storage in last_use.get(number, ()):
            now -= alive.pop(storage)
    return worst


def _kept_at_first(spec: ModelSpec) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Bytes by storage that are kept, and by operation what goes after its backward pass.

    A storage goes with the first operation that keeps it, which is the last one backward. A copy
    has no storage of its own in the spec, and gets a negative number.
    """
    alive: dict[int, int] = {}
    first: dict[int, list[int]] = {}
    for number, op in enumerate(spec.operations):
        tensors, copied = kept_tensors(op) or ((), None)
        if copied is not None:
            alive[-number - 1] = spec.storages[copied.storage].bytes
            first.setdefault(number, []).append(-number - 1)
        for tensor in tensors:
            storage = spec.storages[tensor.storage]
            if storage.role == "made" and tensor.storage not in alive:
                alive[tensor.storage] = storage.bytes
                first.setdefault(number, []).append(tensor.storage)
    return alive, first


class _Gradients:
    """Gradients of activations that are alive, by the storage that they are of."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._buffer: dict[int, int] = {}
        self._maker: dict[int, int] = {}
        for number, op in enumerate(spec.operations):
            for out in op.outputs:
                self._maker.setdefault(out.storage, number)
        self._accumulating = 0

    @property
    def bytes(self) -> int:
        """Bytes of all of them, a shared one once, and of one that is being added to another."""
        return self._accumulating + sum(
            self._spec.storages[b].bytes for b in set(self._buffer.values())
        )

    def of(self, op: Operation) -> None:
        """Make the gradients of the inputs of `op`, those of its outputs being alive."""
        self._accumulating = 0
        for out in op.outputs:
            if out.differentiable and out.storage not in self._buffer:
                self._buffer[out.storage] = out.storage
        passed_on = base_name(op.op)[0] in _PASSED_ON
        for tensor in op.inputs:
            if tensor is None or not tensor.differentiable or not self._is_activation(tensor):
                continue
            if tensor.storage in {o.storage for o in op.outputs}:
                continue
            if tensor.storage in self._buffer:
                self._accumulating += self._spec.storages[tensor.storage].bytes
            elif passed_on and op.outputs and self._as_large(tensor, op.outputs[0]):
                first = op.outputs[0].storage
                self._buffer[tensor.storage] = self._buffer.get(first, first)
            else:
                self._buffer[tensor.storage] = tensor.storage

    def done(self, op: Operation, number: int) -> None:
        """Let go the gradients of what `op` made."""
        self._accumulating = 0
        for out in op.outputs:
            if self._maker.get(out.storage) == number:
                self._buffer.pop(out.storage, None)

    def _is_activation(self, tensor: Tensor) -> bool:
        return self._spec.storages[tensor.storage].role in {"made", "input"}

    def _as_large(self, one: Tensor, other: Tensor) -> bool:
        storages = self._spec.storages
        return storages[one.storage].bytes == storages[other.storage].bytes
