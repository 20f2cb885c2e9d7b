"""Devices that a project or a user declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.declared_devices import DeclarationError, parse_devices
from gpuperf_analyzers.declared_peaks import declared_peaks
from gpuperf_analyzers.hardware import builtin_peaks, find_peak
from gpuperf_analyzers.hookspecs import Peak, hookimpl
from gpuperf_analyzers.registry import load_config, plugin_manager
from pytest_gpuperf.cli import main

DEVICE = """
names = ["Acme X1"]
tflops = { bf16 = 100.0, "fp8:fp32" = 200 }
memory_gb_s = 1500
sms = 64
l2_mib = 32
source = "Acme X1 datasheet"
checked = 2026-11-01
"""


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A user's file that is not there."""
    return tmp_path / "settings" / "devices.toml"


def _project(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_a_project_declares_devices_in_its_pyproject(tmp_path: Path, nowhere: Path) -> None:
    folder = _project(tmp_path, "[[tool.gpuperf.device]]" + DEVICE)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (peak,) = declared_peaks(folder / "deep" / "er", nowhere)
    assert peak.names == ("Acme X1",)
    assert peak.tflops == {"bf16": 100.0, "fp8:fp32": 200.0}
    assert (peak.memory_gb_s, peak.sms, peak.l2_mib) == (1500.0, 64, 32.0)
    assert (peak.source, peak.checked) == ("Acme X1 datasheet", "2026-11-01")


def test_a_project_names_a_file_beside_it(tmp_path: Path, nowhere: Path) -> None:
    folder = _project(tmp_path, '[tool.gpuperf]\ndevices = "gpus/ours.toml"\n')
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "ours.toml").write_text("[[device]]" + DEVICE)
    assert [p.names for p in declared_peaks(folder, nowhere)] == [("Acme X1",)]


def test_the_projects_figures_stand_over_the_users_and_both_over_ours(
    tmp_path: Path, nowhere: Path
) -> None:
    folder = _project(
        tmp_path, '[[tool.gpuperf.device]]\nnames = ["Acme X1"]\ntflops = { bf16 = 90 }\n'
    )
    nowhere.parent.mkdir()
    nowhere.write_text(
        "[[device]]" + DEVICE + '[[device]]\nnames = ["NVIDIA H200"]\ntflops = { bf16 = 800 }\n'
    )
    peaks = (*builtin_peaks(), *declared_peaks(folder, nowhere))
    for name, tflops in (("Acme X1", 90), ("NVIDIA H200", 800)):
        found = find_peak(name, peaks)
        assert found is not None
        assert found.tflops["bf16"] == tflops


def test_nothing_is_declared_where_no_file_is(tmp_path: Path, nowhere: Path) -> None:
    assert declared_peaks(tmp_path, nowhere) == ()
    # Another tool's file, even a broken one, is none of our business.
    assert declared_peaks(_project(tmp_path, "[tool.other\n"), nowhere) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('names = ["X"]\ntflops = { bf17 = 3 }', "the dtype 'bf17' is unknown: write bf16"),
        ('names = ["X"]\ntflops = { "fp16:fp8" = 3 }', "the accumulator 'fp8' is unknown"),
        ('names = ["X"]\ntflops = { bf16 = -3 }', "bf16 must be a number above 0, not -3"),
        ('names = ["X"]\ntflops = { bf16 = "3" }', "bf16 must be a number above 0, not '3'"),
        ('names = ["X"]\ntflops = { bf16 = nan }', "bf16 must be a number above 0, not nan"),
        ('names = ["X"]', "needs dense peaks"),
        ("tflops = { bf16 = 3 }", 'needs names = ["..."]'),
        ('names = ["X"]\ntflop = { bf16 = 3 }', "the key 'tflop' is unknown: write tflops"),
        ('names = ["X"]\ntflops = { bf16 = 3 }\nsms = 1.5', "sms must be a whole number"),
        ('names = ["X"]\ntflops = { bf16 = 3 }\nl2_mib = true', "l2_mib must be a number"),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_device(
    tmp_path: Path, nowhere: Path, text: str, message: str
) -> None:
    folder = _project(tmp_path, f"[[tool.gpuperf.device]]\n{text}\n")
    with pytest.raises(DeclarationError) as caught:
        declared_peaks(folder, nowhere)
    assert message in str(caught.value)
    assert str(folder / "pyproject.toml") in str(caught.value)
    assert "device 1" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.gpuperf]\ndevcies = 3\n", "'devcies' is unknown: write device or devices"),
        ('[tool.gpuperf]\ndevices = "none.toml"\n', "cannot be read"),
        ("[tool.gpuperf]\ndevice = 3\n", "write each device as a [[device]] table"),
        ("[tool.gpuperf\n", "is no TOML"),
    ],
)
def test_a_table_that_cannot_be_understood_is_named(
    tmp_path: Path, nowhere: Path, text: str, message: str
) -> None:
    with pytest.raises(DeclarationError, match=r"pyproject\.toml|none\.toml") as caught:
        declared_peaks(_project(tmp_path, text), nowhere)
    assert message in str(caught.value)


def test_a_device_that_is_no_table_is_told() -> None:
    with pytest.raises(DeclarationError, match="device 2 is not a table"):
        parse_devices([{"names": ["X"], "tflops": {"bf16": 1}}, 3], "file.toml")


def test_a_plugins_peak_stands_over_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _project(
        tmp_path, '[[tool.gpuperf.device]]\nnames = ["NVIDIA H200"]\ntflops = { bf16 = 800 }\n'
    )
    monkeypatch.chdir(tmp_path)

    def bf16(*plugins: object) -> float:
        peak = find_peak("NVIDIA H200", load_config(plugin_manager(*plugins)).peaks)
        assert peak is not None
        return peak.tflops["bf16"]

    class Plugin:
        @hookimpl
        def gpuperf_peaks(self) -> list[Peak]:
            return [Peak(("NVIDIA H200",), {"bf16": 700.0})]

    assert bf16() == 800
    assert bf16(Plugin()) == 700


def test_the_command_tells_a_mistake_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kineto import KinetoTrace

    t = KinetoTrace()
    with t.step(1, at=0, dur=95):
        t.launch("gemm", at=1, runs=(10, 60))
    trace = t.write(tmp_path / "trace.json")
    _project(tmp_path, '[[tool.gpuperf.device]]\nnames = ["X"]\ntflops = { bf17 = 3 }\n')
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", str(trace)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "bf17" in error
