"""Inputs of one value: found wherever a workload gets them from, and only those."""

from __future__ import annotations

from functools import partial

import pytest

from pytest_gpuperf.recording.inputs import input_notes

torch = pytest.importorskip("torch")

CPU = torch.device("cpu")
ZEROS = torch.zeros(64, 64)


def notes(step: object) -> tuple[str, ...]:
    return input_notes(step, CPU)  # type: ignore[arg-type]


def test_zeros_given_closed_over_by_default_and_global_are_told() -> None:
    x = torch.zeros(32, 64)
    assert "shape 32x64 is all zeros" in notes(partial(torch.relu, x))[0]
    assert "shape 32x64 is all zeros" in notes(lambda: torch.relu(x))[0]
    assert "shape 64x64 is all zeros" in notes(lambda: torch.relu(ZEROS))[0]

    def by_default(y: torch.Tensor = x) -> torch.Tensor:
        return y + 1

    assert "32x64" in notes(by_default)[0]


def test_a_constant_is_told_with_its_value_and_lists_are_looked_into() -> None:
    (note,) = notes(partial(torch.cat, [torch.full((2048,), 1.5)]))
    assert "shape 2048 is 1.5 throughout" in note


def test_random_small_integer_and_nearly_constant_inputs_are_not_told() -> None:
    nearly = torch.zeros(100, 100)
    nearly[57, 33] = 1.0  # between the elements that are looked at first
    for x in (torch.randn(64, 64), torch.zeros(8), torch.zeros(64, 64, dtype=torch.long), nearly):
        assert notes(partial(torch.abs, x)) == ()


def test_a_strided_view_is_read_without_a_copy_of_its_own() -> None:
    base = torch.zeros(128, 128)
    base[:, 1::2] = torch.randn(128, 64)
    assert notes(partial(torch.relu, base[:, 0::2].t())) != ()
    assert notes(partial(torch.relu, base[:, 1::2].t())) == ()


def test_what_holds_no_data_is_passed_over() -> None:
    meta = torch.zeros(64, 64, device="meta")
    sparse = torch.zeros(64, 64).to_sparse()
    assert notes(partial(torch.relu, meta)) == ()
    assert notes(partial(torch.relu, sparse)) == ()
    assert notes(print) == ()
