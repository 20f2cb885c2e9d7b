"""A kernel of one's own is held against its reference before anything is timed."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gpuperf import workloads
from pytest_gpuperf.workloads import WrongResultError
from pytest_gpuperf.workloads.workload import close

torch = pytest.importorskip("torch")


def two(device: Any) -> tuple[Any, Any]:
    return torch.arange(4.0, device=device), torch.ones(4, device=device)


def test_a_right_kernel_tells_how_much_of_what_is_allowed_it_is_off() -> None:
    # 3 + 1 is the largest result; half of what 1e-3 of it allows, 2e-3, is added.
    workload = workloads.kernel(
        lambda a, b: a + b + 2e-3, reference=torch.add, inputs=two, atol=0, rtol=1e-3
    )
    assert workload.check("cpu") == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda a, b: a - b, "element 0 is -1, its reference 1, and 5e-05 is allowed"),
        (lambda a, b: (a + b) * torch.nan, "element 0 is nan, its reference 1"),
        (lambda a, b: (a + b)[:2], "gives the shape (2,), its reference (4,)"),
        (lambda a, b: (a + b, a), "returns 2 tensors, its reference 1"),
        (lambda a, b: None, "the kernel returns NoneType, and a result is a tensor"),
        (lambda a, b: (), "the kernel returns tuple"),
    ],
)
def test_a_wrong_kernel_is_named_with_where_it_is_wrong(fn: Any, says: str) -> None:
    workload = workloads.kernel(fn, reference=torch.add, inputs=two)
    with pytest.raises(WrongResultError) as wrong:
        workload.check("cpu")
    assert says in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_a_kernel_that_works_in_place_does_not_feed_its_own_reference() -> None:
    workload = workloads.kernel(lambda a, b: a.add_(b), reference=torch.add, inputs=two)
    assert workload.check("cpu") == 0


def test_what_is_declared_is_what_is_judged() -> None:
    workload = workloads.kernel(
        torch.add, reference=torch.add, inputs=two, flops=4, bytes=48, items=4, dtype="bf16"
    )
    assert workload.declared() == {"flops": 4, "dtype": "bf16", "bytes": 48, "items": 4}
    assert workload.name == "add"


def test_no_tolerance_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="allow no difference at all"):
        workloads.kernel(torch.add, reference=torch.add, inputs=two, atol=0, rtol=0)


def test_nothing_allowed_and_nothing_off_is_right() -> None:
    zeros = torch.zeros(3)
    assert close("it", zeros, zeros, 0.0) == 0
    with pytest.raises(WrongResultError):
        close("it", zeros + 1e-30, zeros, 0.0)
    assert close("it", torch.empty(0), torch.empty(0), 1.0) == 0
