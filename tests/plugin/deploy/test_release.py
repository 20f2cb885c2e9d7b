"""What is shipped: equal bytes from two builds, and nothing left out."""

from __future__ import annotations

import importlib.util
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling")

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "release_check.py"


def test_two_builds_are_the_same_bytes_and_whole(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("release_check", SCRIPT)
    assert spec
    assert spec.loader
    release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release)
    first = release.built(tmp_path / "a")
    root = tmp_path / "a" / "source"  # the checkout itself may change meanwhile
    second = release.built(tmp_path / "b", root=root)
    assert len(first) == 2
    assert first == second
    other = release.built(tmp_path / "c", "1000000000", root)
    assert set(other.values()).isdisjoint(first.values()), "the time is in them: the check can fail"
    (wheel,) = (tmp_path / "a" / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        str(path.relative_to(top))
        for top in (root / "src", root / "analyzers")
        for path in top.rglob("*.py")
    }
    assert ours <= names
    assert {"pytest_gpuperf/py.typed", "gpuperf_analyzers/py.typed"} <= names
    assert not [n for n in names if n.split("/")[0] in ("tests", "docs", "deploy")]
    (sdist,) = (tmp_path / "a" / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        within = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for path in ("LICENSE", "SECURITY.md", "deploy/gpu.Dockerfile", "tests/conftest.py", "src"):
        assert path in within or any(name.startswith(f"{path}/") for name in within), path


def test_the_declared_pythons_are_those_that_tools_and_docs_name() -> None:
    written = (ROOT / "pyproject.toml").read_text()
    declared = re.findall(r"Python :: (3\.\d+)", written)
    assert declared == [f"3.{minor}" for minor in range(10, 15)]
    assert 'requires-python = ">=3.10"' in written
    assert 'target-version = "py310"' in written
    table = (ROOT / "docs" / "how-to" / "install.md").read_text()
    for version in declared:
        assert f"| {version} |" in table
