"""Alive bytes: what a new tensor adds, each storage once."""

from __future__ import annotations

import gc
import weakref

import pytest

from pytest_gpuperf.recording.memory import alive_bytes

torch = pytest.importorskip("torch")

CPU = torch.device("cpu")


@pytest.fixture
def before() -> int:
    return alive_bytes(CPU)


def test_a_tensor_adds_its_bytes_and_a_view_adds_none(before: int) -> None:
    kept = torch.zeros(1000, dtype=torch.float64)
    view = kept[10:20]
    assert alive_bytes(CPU) - before == 8000
    del kept
    assert alive_bytes(CPU) - before == 8000  # the view holds the whole storage
    del view
    assert alive_bytes(CPU) == before


def test_parameters_gradients_and_optimizer_state_count(before: int) -> None:
    layer = torch.nn.Linear(100, 50, bias=False)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 100)).sum().backward()
    assert alive_bytes(CPU) - before == 2 * 20000  # weight and gradient
    optimizer.step()
    # Two moments of the weight's size, and a step count in fp32.
    assert alive_bytes(CPU) - before == 4 * 20000 + 4


def test_a_dead_cycle_is_garbage_and_not_alive(before: int) -> None:
    holder: dict[str, object] = {"tensor": torch.zeros(1000)}
    holder["self"] = holder
    del holder
    assert alive_bytes(CPU) == before


def test_a_sparse_tensor_counts_its_indices_and_values(before: int) -> None:
    kept = torch.sparse_coo_tensor([[0, 1], [2, 3]], [1.0, 2.0], (100, 100), check_invariants=False)
    gc.collect()
    assert alive_bytes(CPU) - before == 2 * 2 * 8 + 2 * 4
    del kept


def test_tensors_without_memory_add_none(before: int) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    meta = torch.zeros(1000, device="meta")
    with FakeTensorMode():
        fake = torch.zeros(1000)
    assert alive_bytes(CPU) == before
    del meta, fake


def test_proxies_and_odd_objects_are_passed_by(before: int) -> None:
    class Odd:
        @property
        def __class__(self) -> type:
            raise RuntimeError("do not ask")

    odd = Odd()

    class Owner:
        pass

    owner = Owner()
    proxy = weakref.proxy(owner)
    del owner
    assert alive_bytes(CPU) == before
    del odd, proxy
