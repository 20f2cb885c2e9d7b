"""A libnvidia-ml of our own, built from C and loaded by the real binding."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
BuildLibrary = Callable[..., Path]


class FakeNvml:
    """The made-up driver: a scenario is set before NVML is opened, and calls are counted."""

    def __init__(self, library: ctypes.CDLL, scenario: Path) -> None:
        self._library = library
        self._scenario = scenario

    def set(self, *lines: str) -> None:
        """What the driver is to say, in the words of ``fake_nvml.c``."""
        self._scenario.write_text("\n".join(lines) + "\n")

    def calls(self, name: str) -> int:
        return int(self._library.fake_calls(name.encode()))

    @property
    def open(self) -> int:
        return int(self._library.fake_open())


@pytest.fixture(scope="session")
def build_nvml(tmp_path_factory: pytest.TempPathFactory) -> BuildLibrary:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("a C compiler (gcc) builds the library that stands for the driver's")
    folder = tmp_path_factory.mktemp("nvml")

    def build(name: str, *options: str) -> Path:
        path = folder / name / "libnvidia-ml.so.1"
        if not path.exists():
            path.parent.mkdir()
            command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", *options]
            subprocess.run([*command, "-o", str(path), str(SOURCE)], check=True)
        return path

    return build


@pytest.fixture
def nvml(
    request: pytest.FixtureRequest,
    build_nvml: BuildLibrary,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[FakeNvml]:
    """A current driver, or with the parameter ``old`` an old one."""
    old = getattr(request, "param", "current") == "old"
    path = build_nvml("old", "-DOLD_DRIVER") if old else build_nvml("current")
    library = ctypes.CDLL(str(path))
    library.fake_calls.restype = ctypes.c_long
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    scenario = tmp_path / "scenario"
    scenario.write_text("")
    monkeypatch.setenv("FAKE_NVML", str(scenario))
    fake = FakeNvml(library, scenario)
    yield fake
    assert fake.open == 0, "every init has its shutdown"
