"""Device names, timers, options, and what importing costs."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_gpuperf import recording
from pytest_gpuperf.recording import (
    Options,
    RecordingError,
    TorchMissingError,
    devices,
    environment,
    resolve_device,
    timers,
)

torch = pytest.importorskip("torch")


def with_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(
    ("gpus", "spec", "device"),
    [
        (0, None, "cpu"),
        (2, None, "cuda:0"),
        (2, "cuda", "cuda:0"),
        (2, "cuda:1", "cuda:1"),
        (2, "cpu", "cpu"),
    ],
)
def test_a_spec_names_a_device(
    monkeypatch: pytest.MonkeyPatch, gpus: int, spec: str | None, device: str
) -> None:
    with_gpus(monkeypatch, gpus)
    assert str(resolve_device(spec)) == device


@pytest.mark.parametrize(
    ("gpus", "spec", "said"),
    [
        (0, "cuda", r"there is no 'cuda' here \(torch sees no CUDA GPU\)"),
        (1, "cuda:1", r"there is no 'cuda:1' here \(torch sees cuda:0\)"),
        (2, "cuda:2", r"torch sees cuda:0 to cuda:1"),
        (1, "mps", r"cannot measure on 'mps': name 'cpu', 'cuda' or 'cuda:N'"),
        (1, "gpu", r"cannot measure on 'gpu'"),
        (1, "", r"cannot measure on ''"),
    ],
)
def test_a_spec_that_fits_nothing_here_is_refused_with_the_mend(
    monkeypatch: pytest.MonkeyPatch, gpus: int, spec: str, said: str
) -> None:
    with_gpus(monkeypatch, gpus)
    with pytest.raises(RecordingError, match=said):
        resolve_device(spec)


def test_a_gpu_is_called_by_its_drivers_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    assert devices.device_title(torch.device("cuda", 0)) == "NVIDIA H200"
    assert devices.device_title(torch.device("cpu")) == "cpu"


def test_the_timer_follows_the_device_unless_named() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda", 0)
    assert timers.make_timer(None, cpu).name == "wall"
    assert timers.make_timer(None, gpu).name == "event"
    assert timers.make_timer("wall", gpu).name == "wall"
    for name in ("event", "graph", "kernel"):
        assert timers.make_timer(name, gpu).name == name
        with pytest.raises(RecordingError, match=f"timer='{name}' needs a CUDA device, not cpu"):
            timers.make_timer(name, cpu)


def test_events_are_read_in_microseconds_and_wall_time_waits_for_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = []

    class Event:
        recorded = 0.0

        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            Event.recorded += 1.5
            self.at = Event.recorded

        def elapsed_time(self, end: Event) -> float:
            return end.at - self.at  # ms, as CUDA's

    cuda = SimpleNamespace(Event=Event, synchronize=waits.append)
    monkeypatch.setattr(timers, "import_torch", lambda: SimpleNamespace(cuda=cuda))
    gpu = torch.device("cuda", 0)
    event = timers.EventTimer(gpu)
    assert event.elapsed_us(event.mark(), event.mark()) == 1500.0
    assert waits == []
    event.synchronize()
    wall = timers.WallTimer(gpu)
    assert wall.elapsed_us(wall.mark(), wall.mark()) >= 0
    assert waits == [gpu] * 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"warmup_s": -1}, "warmup_s must be a time of 0 s or more, not -1"),
        ({"max_time_s": float("nan")}, "max_time_s must be a time"),
        ({"flops": 0}, "flops must be a number above 0"),
        ({"items": float("inf")}, "items must be a number above 0"),
        ({"steps": 0}, "steps must be 1 or more"),
        ({"min_samples": 9, "max_samples": 3}, r"min_samples \(9\) must be from 1 to"),
        ({"timer": "sundial"}, "timer must be one of wall, event, graph, kernel, not 'sundial'"),
        ({"l2": "warm"}, "l2 must be hot or cold, not 'warm'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Options(**options)


def test_the_environment_says_what_is_known_and_only_text() -> None:
    import platform

    found = environment(torch.device("cpu"))
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert found["device"] == "cpu"
    assert int(found["cores"]) >= 1
    assert all(isinstance(v, str) and v for v in found.values())


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, pytest_gpuperf.recording as r, pytest_gpuperf.recording.regions\n"
        "r.region, r.Options, r.SOLO, r.RecordingError\n"
        "heavy = {'torch', 'numpy', 'pandas', 'pynvml', 'scipy', 'rich'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_name_of_the_package_is_there() -> None:
    for name in recording.__all__:
        assert getattr(recording, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        recording.nothing  # noqa: B018 - the access is the test


def test_a_missing_torch_is_one_clear_error_and_a_broken_one_is_its_own() -> None:
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from pytest_gpuperf.recording import resolve_device, TorchMissingError\n"
        "try:\n"
        "    resolve_device()\n"
        "except TorchMissingError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "not installed: pip install pytest-gpuperf[torch]" in done.stdout, done.stderr
    assert issubclass(TorchMissingError, RecordingError)


def test_the_commit_is_the_working_directorys(tmp_path) -> None:
    from pytest_gpuperf.recording.host_environment import commit

    assert commit(tmp_path) == ""

    def git(*args: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *who, *args], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    (tmp_path / "f").write_text("1")
    git("add", "f")
    git("commit", "-qm", "one")
    assert commit(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "f").write_text("2")
    assert commit(tmp_path) == git("rev-parse", "HEAD") + "+dirty"
