"""Run a module's forward pass on the meta device and write down what each operation reads.

Meta tensors have shapes and storages but no memory: a model of any size takes none. Parameters
and buffers are replaced for the one call (``torch.func.functional_call``); the user's model is
not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import harmless
from gpuperf_analyzers.estimate.spec import ModelSpec
from pytest_gpuperf.model_spec.watching import Watch
from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    from torch import nn


class ModelSpecError(RuntimeError):
    """A model that cannot be run on the meta device: one line with the reason and the mend."""


def model_spec(
    model: nn.Module,
    *inputs: Any,
    loss: Callable[..., Any] | None = None,
    name: str = "",
    **keywords: Any,
) -> ModelSpec:
    """The operations of ``loss(model(*inputs, **keywords))``, torch-free, and nothing allocated.

    Parameters
    ----------
    model
        On any device, the meta device too. It is neither changed nor moved.
    inputs, keywords
        What it is called with: tensors on any device (only their shapes and types are used), or
        lists, tuples and dicts of them.
    loss
        Takes the model's output and returns what ``backward`` starts from; by default the output
        itself is taken.
    name
        As shown; by default the model's class.

    Raises
    ------
    ModelSpecError
        The forward pass needs values, or a tensor that is no parameter, buffer or input.
    """
    torch = import_torch()
    if not isinstance(model, torch.nn.Module):
        raise ModelSpecError(f"{type(model).__name__} is not an nn.Module")
    watch = Watch(torch)
    state = {
        **_as_meta(torch, dict(model.named_parameters(remove_duplicate=False)), watch, "parameter"),
        **_as_meta(torch, dict(model.named_buffers(remove_duplicate=False)), watch, "buffer"),
    }
    args = _inputs(torch, inputs, watch)
    kwargs = _inputs(torch, keywords, watch)
    try:
        with watch.of(model):
            out = torch.func.functional_call(model, state, args, kwargs)
            if loss is not None:
                loss(out)
    except Exception as error:
        what = harmless(f"{type(error).__name__}: {error}".splitlines()[0])
        raise ModelSpecError(
            f"{type(model).__name__} cannot be run on the meta device ({what}): its forward pass "
            "may use values (.item(), if) or a tensor that is no parameter, buffer or input"
        ) from error
    return watch.spec(name or type(model).__name__)


def _as_meta(torch: Any, tensors: Mapping[str, Any], watch: Watch, role: str) -> dict[str, Any]:
    """Empty tensors of the same shapes and types, one for tensors that are the same object."""
    made: dict[int, Any] = {}
    found = {}
    for name, tensor in tensors.items():
        if id(tensor) not in made:
            meta = torch.empty_like(tensor, device="meta", requires_grad=tensor.requires_grad)
            watch.know(meta, role, name)
            made[id(tensor)] = meta
        found[name] = made[id(tensor)]
    return found


def _inputs(torch: Any, value: Any, watch: Watch) -> Any:
    """`value` with each tensor in it as an empty one on the meta device."""
    if isinstance(value, torch.Tensor):
        meta = torch.empty_like(value, device="meta", requires_grad=value.requires_grad)
        watch.know(meta, "input", "")
        return meta
    if isinstance(value, dict):
        return {key: _inputs(torch, item, watch) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_inputs(torch, item, watch) for item in value)
    return value
