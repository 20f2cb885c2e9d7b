"""The plugin, installed and unused, is not felt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "numpy", "pandas", "scipy", "msgspec", "pynvml", "rich", "filelock", "isal")

SPY = """
import json, sys

def pytest_unconfigure(config):
    print("LOADED " + json.dumps(sorted(sys.modules)))
"""


def loaded(folder: Path, *options: str) -> set[str]:
    """Top-level modules in ``sys.modules`` at the end of a pytest run on `folder`."""
    (folder / "spy.py").write_text(SPY)
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "spy", *options]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": "", "PYTHONPATH": str(folder)},
    )  # fmt: skip
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("LOADED ")]
    return {name.partition(".")[0] for name in json.loads(line.removeprefix("LOADED "))}


def test_collecting_an_empty_folder_imports_nothing_heavy(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "--collect-only")
    assert "pytest_gpuperf" in modules
    assert modules.isdisjoint(HEAVY)


def test_collecting_and_running_tests_that_do_not_measure_imports_nothing_heavy(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): ...\n")
    assert loaded(tmp_path).isdisjoint(HEAVY)


def test_collecting_marked_tests_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(
        "import pytest\n"
        '@pytest.mark.gpuperf(min_tflops={"NVIDIA H100": 600}, max_step_time="3ms")\n'
        "def test_marked(gpuperf): ...\n"
    )
    assert loaded(tmp_path, "--collect-only").isdisjoint(HEAVY)
