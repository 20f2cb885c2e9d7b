"""Each check of the doctor against a machine made up for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.doctor.checks import CHECKS, run_checks
from pytest_gpuperf.doctor.driver import Device, Driver
from pytest_gpuperf.doctor.facts import Facts
from pytest_gpuperf.doctor.known_errors import KNOWN, explain
from pytest_gpuperf.doctor.machine import Machine
from pytest_gpuperf.doctor.model import Check, Status, exit_status, fail, warn
from pytest_gpuperf.doctor.torch_facts import TorchFacts, ask_torch, facts_of

H100 = Device(
    "NVIDIA H100 80GB HBM3", "GPU-1", persistence=True, mig=False, power_limit_w=700.0,
    default_limit_w=700.0, temperature_c=40.0, slowed=False, clocks_set=False, processes=0,
)  # fmt: skip
DRIVER = Driver("570.86.15", (12, 8), (H100,))
TORCH = TorchFacts("2.13.0", cuda="12.8", available=True, devices=1, ops=1, kernels=1,
                   profiled_on="cuda")  # fmt: skip
CPU_TORCH = TorchFacts("2.13.0+cpu", ops=1, kernels=0, profiled_on="cpu")
NO_DRIVER = Driver(error="NVML Shared Library Not Found", code=12)


class Root:
    """A made-up ``/``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ: dict[str, str] = {}
        (path / "dev/shm").mkdir(parents=True)

    def file(self, name: str, text: str = "") -> Root:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return self

    def gpu_on_the_bus(self) -> Root:
        self.file("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
        return self.file("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")

    def module(self) -> Root:
        return self.file(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 2026\n",
        )

    def nodes(self, *names: str) -> Root:
        for name in names or ("nvidia0", "nvidiactl", "nvidia-uvm"):
            self.file(f"dev/{name}")
        return self

    def checks(self, driver: Driver = DRIVER, torch: TorchFacts = TORCH) -> dict[str, Check]:
        machine = Machine(self.path, self.environ, self.path)
        found = {c.name: c for c in run_checks(Facts(machine, driver, torch))}
        assert len(found) == len(CHECKS)
        return found


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def on(status: Status, check: Check, *words: str) -> None:
    assert check.status is status, check
    for word in words:
        assert word in f"{check.found} {check.mend}", check
    if status in (Status.FAIL, Status.WARN):
        assert check.mend
    assert "\n" not in check.found + check.mend


def test_a_healthy_machine_has_nothing_to_mend(root: Root) -> None:
    found = root.gpu_on_the_bus().module().nodes().checks()
    # The container's own limits and disk are this machine's, not the made-up one's.
    mine = {n: c for n, c in found.items() if n not in ("disk", "shared-memory", "time-source")}
    assert not [c for c in mine.values() if c.status in (Status.FAIL, Status.WARN)]
    on(Status.OK, found["driver"], "570.86.15", "12.8")
    on(Status.OK, found["self-test"], "shows 1 kernel")


def test_a_machine_without_a_gpu_can_measure_its_cpu(root: Root) -> None:
    found = root.checks(NO_DRIVER, CPU_TORCH)
    assert not [c for c in found.values() if c.status is Status.FAIL]
    on(Status.NOTE, found["hardware"], "no GPU")
    on(Status.SKIP, found["driver"])
    on(Status.OK, found["self-test"], "CPU")


def test_a_gpu_without_a_driver(root: Root) -> None:
    found = root.gpu_on_the_bus().checks(NO_DRIVER, CPU_TORCH)
    on(Status.FAIL, found["driver"], "no driver is loaded", "--gpus all")


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (Driver(error="Driver/library version mismatch", code=18), ("mismatch", "reboot")),
        (Driver(error="Insufficient Permissions", code=4), ("video",)),
        (Driver(error="NVML Shared Library Not Found", code=12),
         ("libnvidia-ml.so.1", "NVIDIA_DRIVER_CAPABILITIES")),
        (Driver(error="Unknown Error", code=999), ("Unknown Error",)),
    ],
)  # fmt: skip
def test_nvml_that_does_not_answer(root: Root, driver: Driver, words: tuple[str, ...]) -> None:
    found = root.gpu_on_the_bus().module().nodes().checks(driver)
    on(Status.FAIL, found["nvml"], *words)


def test_device_nodes_missing_closed_or_without_uvm(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.module()
    on(Status.FAIL, root.checks()["device-nodes"], "/dev/nvidia*", "nvidia-modprobe")
    root.nodes("nvidia0", "nvidiactl")
    on(Status.FAIL, root.checks()["device-nodes"], "nvidia-uvm")
    root.nodes()
    on(Status.OK, root.checks()["device-nodes"], "/dev/nvidia0")
    monkeypatch.setattr("os.access", lambda *_: False)  # root may open everything
    on(Status.FAIL, root.checks()["device-nodes"], "not ours", "video")


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv"])
def test_a_container_without_the_runtime(root: Root, mark: str) -> None:
    root.file(mark)
    root.environ["NVIDIA_VISIBLE_DEVICES"] = "all"
    found = root.checks(NO_DRIVER, CPU_TORCH)
    on(Status.FAIL, found["container"], "nvidia-container-toolkit", "--gpus all")


def test_a_container_that_was_not_given_the_hosts_gpu(root: Root) -> None:
    root.file("proc/1/cgroup", "0::/kubepods/burstable/pod1\n").gpu_on_the_bus()
    found = root.checks(NO_DRIVER, CPU_TORCH)
    on(Status.FAIL, found["container"], "was not given", "--gpus all")
    on(Status.OK, root.checks()["container"], "has the GPU")


@pytest.mark.parametrize(
    ("value", "status"),
    [("", Status.FAIL), ("-1", Status.FAIL), ("7", Status.FAIL), ("0", Status.NOTE),
     ("GPU-1", Status.NOTE)],
)  # fmt: skip
def test_visible_devices(root: Root, value: str, status: Status) -> None:
    root.environ["CUDA_VISIBLE_DEVICES"] = value
    on(status, root.checks()["visible-devices"], repr(value))


def test_a_partitioned_device(root: Root) -> None:
    driver = replace(DRIVER, devices=(replace(H100, mig=True),))
    on(Status.WARN, root.checks(driver)["mig"], "MIG-")
    root.environ["CUDA_VISIBLE_DEVICES"] = "MIG-1"
    on(Status.NOTE, root.checks(driver)["mig"], "slice")


@pytest.mark.parametrize(
    ("torch", "status", "words"),
    [
        (CPU_TORCH, Status.FAIL, ("CPU only", "CUDA build")),
        (replace(TORCH, available=False), Status.FAIL, ("is_available() is False",)),
        (replace(TORCH, cuda_error="no kernel image"), Status.FAIL, ("no kernel image",)),
        (TorchFacts(error="ModuleNotFoundError: No module named 'torch'"), Status.NOTE,
         ("not installed", "pip install")),
        (TorchFacts(error="ImportError: libcudart"), Status.FAIL, ("libcudart",)),
    ],
)  # fmt: skip
def test_torch(root: Root, torch: TorchFacts, status: Status, words: tuple[str, ...]) -> None:
    on(status, root.checks(torch=torch)["torch"], *words)


@pytest.mark.parametrize(
    ("built", "has", "status"),
    [("12.8", (12, 8), Status.OK), ("12.8", (12, 4), Status.NOTE), ("13.0", (12, 8), Status.FAIL),
     ("11.8", (12, 8), Status.OK), ("", (12, 8), Status.SKIP)],
)  # fmt: skip
def test_the_drivers_cuda_and_torchs(
    root: Root, built: str, has: tuple[int, int], status: Status
) -> None:
    found = root.checks(replace(DRIVER, cuda=has), replace(TORCH, cuda=built))
    on(status, found["cuda"])


def test_counters_for_administrators_only(root: Root) -> None:
    root.file("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")
    root.file("proc/self/status", "CapEff:\t0000000000000000\n")
    on(Status.WARN, root.checks()["counters"], "recorded all the same", "NVreg_Restrict")
    root.file("proc/self/status", "CapEff:\t0000000000200000\n")  # bit 21: CAP_SYS_ADMIN
    on(Status.OK, root.checks()["counters"])
    root.file("proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n")
    root.file("proc/self/status", "CapEff:\t0\n")
    on(Status.OK, root.checks()["counters"])


def test_another_program_holds_the_counters(root: Root) -> None:
    root.file("proc/77/comm", "nv-hostengine\n").file("proc/78/comm", "bash\n")
    on(Status.NOTE, root.checks()["counter-holders"], "nv-hostengine", "dcgmi profile --pause")
    root.file("proc/79/comm", "nv-nsight-cu-cl\n")  # the kernel's 15 characters
    on(Status.NOTE, root.checks()["counter-holders"], "nv-nsight-cu-cli")


@pytest.mark.parametrize(
    ("name", "change", "status", "words"),
    [
        ("persistence", {"persistence": False}, Status.NOTE, ("nvidia-smi -pm 1",)),
        ("clocks", {"clocks_set": True}, Status.NOTE, ("set by somebody",)),
        ("clocks", {}, Status.NOTE, ("-lgc",)),
        ("power-limit", {"power_limit_w": 350.0}, Status.WARN, ("350 W", "nvidia-smi -pl 700")),
        ("thermal", {"slowed": True, "reasons": ("hw_thermal_slowdown",), "temperature_c": 91.0},
         Status.WARN, ("91 °C", "hw_thermal_slowdown")),
        ("processes", {"processes": 3}, Status.WARN, ("3 processes",)),
    ],
)  # fmt: skip
def test_what_a_device_says(
    root: Root, name: str, change: dict[str, Any], status: Status, words: tuple[str, ...]
) -> None:
    driver = replace(DRIVER, devices=(replace(H100, **change), H100))
    on(status, root.checks(driver)[name], *words)


def test_small_shared_memory_a_slow_clock_and_a_full_disk(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "space", lambda *_: (64 << 20, 60 << 20))  # Docker's default
    root.file("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
    found = root.checks()
    on(Status.WARN, found["shared-memory"], "60 MiB free of 64", "--shm-size")
    on(Status.WARN, found["disk"], "0.1 GiB")
    on(Status.WARN, found["time-source"], "hpet")
    monkeypatch.setattr(Machine, "space", lambda *_: None)
    found = root.checks()
    on(Status.WARN, found["shared-memory"], "no /dev/shm")
    on(Status.FAIL, found["disk"])


@pytest.mark.parametrize(
    ("torch", "words"),
    [
        (replace(TORCH, kernels=0), ("no kernel", "CUPTI")),
        (replace(TORCH, profile_error="boom"), ("boom",)),
        (replace(CPU_TORCH, ops=0), ("0 of aten::mm",)),
    ],
)
def test_a_silently_empty_profile_is_caught(
    root: Root, torch: TorchFacts, words: tuple[str, ...]
) -> None:
    on(Status.FAIL, root.checks(torch=torch)["self-test"], *words)


def test_what_torch_tells_of_itself_here() -> None:
    pytest.importorskip("torch")
    told = ask_torch()
    assert told.error == ""
    assert told.ops == 1
    assert told.version


def test_a_file_in_the_folder_of_work_is_not_taken_for_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    for name in ("torch", "json"):
        (tmp_path / f"{name}.py").write_text("open('taken', 'w').close()")
    monkeypatch.chdir(tmp_path)
    assert ask_torch().version
    assert not Path("taken").exists()


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [("", -11, "signal 11"), ("noise\n", 1, "exit status 1"), ("{broken", 0, "exit status 0")],
)
def test_a_child_that_dies_is_told(output: str, code: int, words: str) -> None:
    assert words in facts_of(output, code).error


def test_a_child_that_hangs_is_ended() -> None:
    assert "more than 0.001 s" in ask_torch(0.001).error


def test_the_exit_status_is_of_failures_and_strictly_of_warnings() -> None:
    checks = [warn("a", "x", "y")]
    assert (exit_status(checks), exit_status(checks, strict=True)) == (0, 1)
    assert exit_status([*checks, fail("b", "x", "y")]) == 1


@pytest.mark.parametrize(
    "message",
    [
        (
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]]."
        ),
        "docker: Error response from daemon: Unknown runtime specified nvidia.",
        "docker: Error response from daemon: unknown or invalid runtime name: nvidia",
        "libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
        "Failed to initialize NVML: Driver/library version mismatch",
        "nvidia-container-cli: initialization error: nvml error: driver not loaded",
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8",
        "RuntimeError: Found no NVIDIA driver on your system.",
        "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        "ERR_NVGPUCTRPERM: The user does not have permission to access counters",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.",
        "CUDA error: no kernel image is available for execution on the device",
    ],
)
def test_well_known_errors_are_explained(message: str) -> None:
    (found, *_) = explain(message)
    assert found.mend


def test_every_known_error_has_a_cause_and_a_mend() -> None:
    assert all(k.cause and k.mend and "\n" not in k.cause + k.mend for k in KNOWN)


def test_the_command_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", "--quick", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == status
    assert {c["name"] for c in document["checks"]} >= {"driver", "disk", "self-test"}
    assert main(["doctor", "--quick"]) == status
    assert "checks need a look" in capsys.readouterr().out


def test_the_command_explains_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--explain", "could not select device driver"]) == 0
    assert "nvidia-ctk" in capsys.readouterr().out
    assert main(["doctor", "--explain", "all is well"]) == 2
    assert "all is well" in capsys.readouterr().err
