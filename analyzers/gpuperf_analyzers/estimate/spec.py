"""A model's forward pass as a torch-free list of operations, with what each reads and makes.

``pytest_gpuperf.model_spec`` makes it of an ``nn.Module`` on the meta device. A tensor is named
by its storage, so that a view, an in-place result and a tensor that two operations keep are seen
to be the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from gpuperf_analyzers.estimate.terms import EstimateError

Role = Literal["parameter", "buffer", "input", "made"]
_ROLES = ("parameter", "buffer", "input", "made")
SCHEMA = 1
# 1: first version.


@dataclass(frozen=True, slots=True)
class Storage:
    """A piece of memory: its bytes, what it is for, and its name where it has one.

    ``count`` is the number of values and ``trained`` whether a parameter gets a gradient.
    """

    bytes: int
    role: Role
    name: str = ""
    count: int = 0
    trained: bool = False


@dataclass(frozen=True, slots=True)
class Tensor:
    """A view of a storage: its index, its shape, and whether gradients flow through it."""

    storage: int
    shape: tuple[int, ...]
    differentiable: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: torch's name without the overload, where it was called, what it reads.

    ``inputs`` are its tensors in the order of arguments, None for one left out; ``module`` the
    path of the module that called it. ``flags`` hold what shapes do not say.
    """

    op: str
    module: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    flags: Mapping[str, int] = field(default_factory=dict)

    def input(self, index: int) -> Tensor | None:
        """The tensor that is argument `index`, None where there is none."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def differentiable(self) -> bool:
        """Whether autograd follows it."""
        return any(t is not None and t.differentiable for t in self.inputs)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model at one input: storages, and operations in order of execution."""

    name: str
    storages: tuple[Storage, ...]
    operations: tuple[Operation, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"schema": SCHEMA, **asdict(self)}


def parse_spec(raw: object) -> ModelSpec:
    """The spec that :meth:`ModelSpec.to_json` wrote.

    Raises
    ------
    EstimateError
        Not such a document, or one of a newer version.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("schema"), int):
        raise EstimateError("this is no model spec: it has no schema number")
    if raw["schema"] > SCHEMA:
        raise EstimateError(
            f"the model spec has schema {raw['schema']}, newer than {SCHEMA}: update"
        )
    try:
        storages = tuple(_storage(s) for s in raw["storages"])
        operations = tuple(_operation(o, len(storages)) for o in raw["operations"])
        return ModelSpec(str(raw["name"]), storages, operations)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EstimateError(f"the model spec is damaged: {error!r}") from None


def _storage(raw: Mapping[str, Any]) -> Storage:
    if raw["role"] not in _ROLES:
        raise ValueError(f"role {raw['role']!r}")
    return Storage(
        _size(raw["bytes"]),
        raw["role"],
        str(raw["name"]),
        _size(raw["count"]),
        bool(raw["trained"]),
    )


def _operation(raw: Mapping[str, Any], storages: int) -> Operation:
    return Operation(
        str(raw["op"]),
        str(raw["module"]),
        tuple(None if t is None else _tensor(t, storages) for t in raw["inputs"]),
        tuple(_tensor(t, storages) for t in raw["outputs"]),
        {str(k): int(v) for k, v in raw["flags"].items()},
    )


def _tensor(raw: Mapping[str, Any], storages: int) -> Tensor:
    index = _size(raw["storage"])
    if index >= storages:
        raise ValueError(f"storage {index}")
    return Tensor(index, tuple(_size(s) for s in raw["shape"]), bool(raw["differentiable"]))


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"size {value!r}")
    return value
