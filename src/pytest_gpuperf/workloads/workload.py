"""What a workload is: something to run on a device, with its FLOP and bytes as closed forms.

A workload is described without torch, so that it can stand among the parameters of a test; its
tensors are made when it is asked to be ready on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pytest_gpuperf.recording.errors import RecordingError, import_torch

if TYPE_CHECKING:
    import torch

BYTES = "each input read once and each result written once; what a form moves beside is not in it"
"""What ``bytes`` of every workload means."""


class UnavailableError(RecordingError):
    """Why a workload cannot run on this device or machine, in one line."""


class WrongResultError(AssertionError):
    """A workload computes something else than its reference: no time of it is worth anything."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload with its tensors on a device.

    Attributes
    ----------
    step
        One call of it.
    check
        Holds its result against a reference and returns the largest error over what is allowed;
        raises :class:`WrongResultError` where that is above 1. None where it has no reference.
    untimed
        Why its times here would be worthless (an interpreter stands in for a GPU); "" elsewhere.
    """

    step: Callable[[], object]
    check: Callable[[], float] | None = None
    untimed: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: ``gpuperf(workload)`` checks it and measures it.

    Attributes
    ----------
    name
        With its sizes; the id of a parameter in pytest.
    build
        Makes it ready on a device.
    flops
        FLOP of a call, a multiply-add being 2; None where it makes none by these rules.
    bytes
        Bytes that a call must move (:data:`BYTES`); None where that depends on the framework.
    items, items_unit
        What a call handles, for the throughput; None where nothing is counted.
    dtype
        ``bf16``, as in the marker.
    flop_formula, byte_formula
        How the two are computed; "" where there is none.
    counted
        Whether torch's counter sees all of its FLOP; where it does, what is counted stands, and
        elsewhere ``flops`` is declared.
    peak_bytes
        Bytes alive at once on its device, at the least, while it is made, checked and called; a
        device that has less is refused. None where only its user knows.
    notes
        What is to be known of it beside its numbers, told with every measurement.
    """

    name: str
    build: Callable[[torch.device], Prepared] = field(repr=False)
    flops: int | None = None
    bytes: int | None = None
    items: int | None = None
    items_unit: Literal["items", "tokens"] = "items"
    dtype: str = "fp32"
    flop_formula: str = ""
    byte_formula: str = ""
    counted: bool = True
    peak_bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def __name__(self) -> str:
        # pytest takes it for the id of a parameter.
        return self.name

    def on(self, device: str | torch.device | None = None) -> Prepared:
        """The workload ready on `device`; None takes the first GPU, or the CPU.

        Raises
        ------
        UnavailableError
            It cannot run there, or its tensors do not fit into the memory that is there.
        """
        from pytest_gpuperf.recording.devices import resolve_device
        from pytest_gpuperf.workloads.room import require_room

        where = resolve_device(None if device is None else str(device))
        if self.peak_bytes is not None:
            require_room(self.name, self.peak_bytes, where)
        return self.build(where)

    def check(self, device: str | torch.device | None = None) -> float | None:
        """Largest error of the result over what is allowed; None where there is no reference.

        Raises
        ------
        WrongResultError
            It is above 1, or not a number.
        UnavailableError
            The workload cannot run there.
        """
        prepared = self.on(device)
        return None if prepared.check is None else prepared.check()

    def declared(self) -> dict[str, object]:
        """What a measurement of it declares, by the marker's keywords."""
        found: dict[str, object] = {}
        if self.flops and not self.counted:
            found |= {"flops": self.flops, "dtype": self.dtype}
        if self.bytes:
            found["bytes"] = self.bytes
        if self.items:
            found[self.items_unit] = self.items
        return found


def whole(**sizes: int) -> None:
    """Refuse sizes that are no whole numbers above 0.

    Raises
    ------
    ValueError
        One is not; the line names it.
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"gpuperf: {name} must be a whole number above 0, not {size!r}")


def one_of(word: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a `value` that is not among `known`.

    Raises
    ------
    ValueError
        It is not; the line names those there are.
    """
    if value not in known:
        raise ValueError(f"gpuperf: {word} must be one of {', '.join(known)}, not {value!r}")


def close(what: str, found: Any, expected: Any, allowed: float) -> float:
    """Largest ``|found - expected| / allowed``; both are compared in float64.

    Raises
    ------
    WrongResultError
        It is above 1, or a value is not a number; the line says where.
    """
    torch = import_torch()
    if found.shape != expected.shape:
        raise WrongResultError(
            f"gpuperf: {what} gives the shape {tuple(found.shape)}, its reference "
            f"{tuple(expected.shape)}"
        )
    error = (found.detach().to(torch.float64) - expected.detach().to(torch.float64)).abs()
    if not error.numel():
        return 0.0
    error = torch.nan_to_num(error, nan=torch.inf).flatten()
    worst = int(error.argmax())
    largest = float(error[worst])
    share = largest / allowed if allowed else (torch.inf if largest else 0.0)
    if share > 1:
        got, wanted = found.flatten()[worst].item(), expected.flatten()[worst].item()
        raise WrongResultError(
            f"gpuperf: {what} is wrong: element {worst} is {got:.6g}, its reference {wanted:.6g}, "
            f"and {allowed:.2g} is allowed"
        )
    return share
