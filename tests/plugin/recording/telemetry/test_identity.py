"""CUDA's devices by NVML's names, and other processes on them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_gpuperf.recording.telemetry import identity
from pytest_gpuperf.recording.telemetry.tenants import others, own_pids


def _uuids(
    monkeypatch: pytest.MonkeyPatch, told: str | None, ordinal: int = 0, visible: str = ""
) -> tuple[str, ...]:
    properties = SimpleNamespace(uuid=told) if told else SimpleNamespace()
    cuda = SimpleNamespace(get_device_properties=lambda _: properties)
    monkeypatch.setattr(identity, "import_torch", lambda: SimpleNamespace(cuda=cuda))
    device = SimpleNamespace(index=ordinal)
    return identity.device_uuids(device, {"CUDA_VISIBLE_DEVICES": visible})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("12ab-34", ("GPU-12ab-34", "MIG-12ab-34")),  # CUDA does not say which it is
        ("GPU-12ab-34", ("GPU-12ab-34",)),
        ("MIG-56cd", ("MIG-56cd",)),
    ],
)
def test_torchs_uuid_becomes_nvmls(
    monkeypatch: pytest.MonkeyPatch, told: str, asked: tuple[str, ...]
) -> None:
    assert _uuids(monkeypatch, told, visible="GPU-other") == asked


def test_an_older_torch_leaves_the_uuid_that_the_device_was_made_visible_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _uuids(monkeypatch, None, 1, "GPU-a, MIG-b") == ("MIG-b",)
    # An index is CUDA's, in CUDA's order: it says nothing to NVML.
    assert _uuids(monkeypatch, None, 0, "3,1") == ()
    assert _uuids(monkeypatch, None, 2, "GPU-a") == ()
    assert _uuids(monkeypatch, None) == ()


def test_a_process_is_known_by_its_id_in_every_namespace(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nNSpid:\t4711\t17\n")
    assert own_pids(status) == {os.getpid(), 4711, 17}
    assert own_pids(tmp_path / "none") == {os.getpid()}


@pytest.mark.parametrize(
    ("listed", "count"),
    [([], 0), ([10], 0), ([10, 11], 1), ([11], 0), ([11, 12], 1), ([10, 10, 11], 1)],
)
def test_others_are_those_that_are_not_this_process(listed: list[int], count: int) -> None:
    """Where this process's id is not listed (a container), one of those listed is this one."""
    assert others(listed, frozenset({10})) == count
