"""One measurement at a time on a device, across processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

torch = pytest.importorskip("torch")

from pytest_gpuperf.session.device_lock import device_key, device_lock  # noqa: E402
from pytest_gpuperf.session.measuring import waiting_notes  # noqa: E402


def test_a_cpu_is_one_device() -> None:
    assert device_key(torch.device("cpu")) == "cpu"


def test_two_processes_never_hold_the_same_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    log = tmp_path / "log"
    # Each notes when it has the lock and when it lets go; side by side these would interleave.
    script = textwrap.dedent(f"""
        import time
        from types import SimpleNamespace
        from pytest_gpuperf.session.device_lock import device_lock
        with device_lock([SimpleNamespace(type="cpu")]):
            with open({str(log)!r}, "a", buffering=1) as out:
                out.write("in\\n")
                time.sleep(0.3)
                out.write("out\\n")
    """)
    processes = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    assert [p.wait(60) for p in processes] == [0, 0]
    assert log.read_text().split() == ["in", "out", "in", "out"]


def test_rank_0_of_a_torchrun_keeps_the_lock_and_the_others_take_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, FileLock] = {}
    monkeypatch.setattr("pytest_gpuperf.session.device_lock._kept", kept)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0", "0"):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("LOCAL_RANK", rank)
        with device_lock([torch.device("cpu")]):
            assert list(kept) == ([] if rank == "1" else ["cpu"])
    another = FileLock(kept["cpu"].lock_file)
    with pytest.raises(Timeout):
        another.acquire(timeout=0)
    kept["cpu"].release()
    another.acquire(timeout=0)
    another.release()


def test_the_lock_is_let_go_when_the_workload_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), device_lock([torch.device("cpu")]):
            raise ZeroDivisionError


def test_a_wait_for_another_measurement_is_told_and_a_moments_is_not() -> None:
    assert waiting_notes(0.01) == ()
    assert waiting_notes(12.34) == ("waited 12.3 s for another measurement to leave the device",)
