"""What the fixture is handed, ready to be measured: a function as it is, a workload built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeGuard

    import torch

    from pytest_gpuperf.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Ready:
    """A step, and what is known of it.

    Attributes
    ----------
    step
        What is called.
    declared
        Keywords of the marker that the workload declares for itself.
    notes
        What is told with its numbers.
    untimed
        Why its times would be worthless; "" where they are not.
    """

    step: Callable[[], object]
    declared: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    untimed: str = ""

    def beside(self, written: Mapping[str, object]) -> dict[str, object]:
        """`written` over what is declared; items and tokens are one thing."""
        given = {key: value for key, value in written.items() if value is not None}
        counted = {"items", "tokens"}
        hidden = counted if counted & set(given) else set()
        return {**{k: v for k, v in self.declared.items() if k not in hidden}, **given}


def is_workload(fn: object) -> TypeGuard[Workload]:
    """Whether `fn` is one of our workloads; nothing is imported to say no."""
    if type(fn).__name__ != "Workload":
        return False
    from pytest_gpuperf.workloads.workload import Workload

    return isinstance(fn, Workload)


def ready(fn: object, device: Callable[[], torch.device]) -> Ready:
    """`fn` ready on ``device()``; a workload is held against its reference first.

    Raises
    ------
    UnavailableError
        The workload cannot run on this device or machine, or does not fit into its memory.
    WrongResultError
        It computes something else than its reference.
    ValueError
        `fn` cannot be called.
    """
    if is_workload(fn):
        prepared = fn.on(device())
        if prepared.check is not None:
            prepared.check()
        return Ready(prepared.step, fn.declared(), fn.notes, prepared.untimed)
    if not callable(fn):
        raise ValueError(f"gpuperf: {fn!r} is not a function to measure")
    return Ready(fn)
