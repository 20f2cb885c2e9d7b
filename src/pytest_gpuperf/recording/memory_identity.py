"""Who owns a tensor's memory: parameters, gradients, optimizer state, inputs, by identity.

Modules and optimizers are found among the objects that Python's collector knows, so that a test
need not name them. Storages are told apart by their address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.recording.inputs import inputs_of
from pytest_gpuperf.recording.memory import dense_parts, objects_by_kind, objects_of

if TYPE_CHECKING:
    import torch

Identities = dict[int, tuple[str, str]]
"""Category and place by the address of a storage."""
_DEEPEST = 4


def module_paths(modules: Sequence[Any] | None = None) -> dict[int, tuple[str, Any]]:
    """Each module by its ``id``: its name from the outermost module down, and itself."""
    if modules is None:
        modules = objects_of(import_torch().nn.Module)
    inner = {id(child) for m in modules for child in _children(m).values()}
    paths: dict[int, tuple[str, Any]] = {}
    waiting = [(type(m).__name__, m) for m in modules if id(m) not in inner] or [
        (type(m).__name__, m) for m in modules
    ]
    while waiting:
        path, module = waiting.pop()
        if id(module) in paths:
            continue
        paths[id(module)] = (path, module)
        waiting += [(f"{path}.{name}", child) for name, child in _children(module).items()]
    return paths


def _children(module: Any) -> Mapping[str, Any]:
    found = module.__dict__.get("_modules") or {}
    return {name: child for name, child in found.items() if child is not None}


def identities(device: torch.device, step: Callable[..., object] | None = None) -> Identities:
    """What every storage on `device` is, as far as that is known, and where it belongs.

    Parameters and buffers of modules, and leaves that require a gradient, are ``parameter``; what
    is in ``.grad`` of those ``gradient``; tensors in the state of an optimizer ``optimizer``;
    tensors that `step` is given, closes over or names ``input``. Of several the first stands.
    """
    torch = import_torch()
    found: Identities = {}
    tensors, modules, optimizers = objects_by_kind(
        torch.Tensor, torch.nn.Module, torch.optim.Optimizer
    )
    leaves = [*_of_modules(modules)]
    leaves += [(_shape(t), t) for t in tensors if _is_trained(t)]
    for place, tensor in leaves:
        _note(torch, found, tensor, device, ("parameter", place))
    for place, tensor in leaves:
        gradient = _gradient(tensor)
        if gradient is not None:
            _note(torch, found, gradient, device, ("gradient", place))
    for optimizer in optimizers:
        _note_state(torch, found, optimizer, device)
    for value in inputs_of(step) if step is not None else ():
        for tensor in _tensors(torch, value):
            _note(torch, found, tensor, device, ("input", _shape(tensor)))
    return found


def _of_modules(modules: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Name and tensor of every parameter and buffer."""
    for path, module in module_paths(modules).values():
        for store in ("_parameters", "_buffers"):
            for name, tensor in (module.__dict__.get(store) or {}).items():
                if tensor is not None:
                    yield f"{path}.{name}", tensor


def of_optimizer(device: torch.device, optimizer: Any) -> Identities:
    """The gradients and the state that `optimizer` works on now."""
    torch = import_torch()
    found: Identities = {}
    for group in optimizer.param_groups:
        for tensor in group["params"]:
            gradient = _gradient(tensor)
            if gradient is not None:
                _note(torch, found, gradient, device, ("gradient", ""))
    _note_state(torch, found, optimizer, device)
    return found


def _note_state(torch: Any, found: Identities, optimizer: Any, device: torch.device) -> None:
    place = f"{type(optimizer).__name__} state"
    for tensor in _tensors(torch, list(optimizer.state.values())):
        _note(torch, found, tensor, device, ("optimizer", place))


def _tensors(torch: Any, value: Any, depth: int = 0) -> Iterator[Any]:
    """Tensors in `value`: alone, in lists, tuples and dicts, and among an object's attributes."""
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        yield value
    elif depth >= _DEEPEST:
        return
    elif issubclass(kind, dict):
        for item in list(value.values()):
            yield from _tensors(torch, item, depth + 1)
    elif issubclass(kind, (list, tuple)):
        for item in value:
            yield from _tensors(torch, item, depth + 1)


def _is_trained(tensor: Any) -> bool:
    try:
        return bool(tensor.is_leaf and tensor.requires_grad)
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        return False


def _gradient(tensor: Any) -> Any:
    try:
        return tensor.grad if tensor.is_leaf else None
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        return None


def _shape(tensor: Any) -> str:
    try:
        return f"tensor {'x'.join(str(n) for n in tensor.shape) or 'scalar'}"
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        return "tensor"


def _note(
    torch: Any, found: Identities, tensor: Any, device: torch.device, what: tuple[str, str]
) -> None:
    for address, _ in storages(torch, tensor, device):
        found.setdefault(address, what)


def storages(torch: Any, tensor: Any, device: torch.device) -> list[tuple[int, int]]:
    """Address and bytes of each storage of `tensor` that is on `device`."""
    try:
        if tensor.device.type != device.type:
            return []
        parts = [part.untyped_storage() for part in dense_parts(torch, tensor)]
        # A fake tensor says where it would be; what stands behind it is not there.
        return [(s.data_ptr(), s.nbytes()) for s in parts if s.device == tensor.device]
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        return []
