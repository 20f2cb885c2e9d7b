"""What each side is called with, and whether it ran its own code."""

import sys
from pathlib import Path

import pytest

from pytest_gpuperf.baselines.against.imports import (
    dependency_notes,
    extension_notes,
    same_code,
    version_notes,
)
from pytest_gpuperf.baselines.against.sides import (
    interpreter,
    is_below,
    module_folders,
    moved_folders,
    pytest_arguments,
)
from pytest_gpuperf.baselines.against.worktree import AgainstError

TOP, TREE = Path("/repo"), Path("/tmp/gpuperf-against-x/tree")
ENDS = ("-p", "no:cacheprovider", "--continue-on-collection-errors", "-q")


def arguments(*written, tree=TREE, plugins=()):
    found = pytest_arguments(written, TOP, tree, plugins)
    assert found[-len(ENDS) :] == ENDS
    return found[: -len(ENDS)]


def test_selection_and_the_users_own_options_go_along():
    written = ("tests/test_a.py::test_x", "-k", "fast", "-m", "not slow", "--model=small", "-c",
               "ci.ini", "-o", "gpuperf_warmup=1s", "--gpuperf-device=cpu")  # fmt: skip
    assert arguments(*written) == written


def test_reports_parallel_runs_and_early_ends_stay_with_the_parent():
    assert arguments(
        "--gpuperf-against=HEAD", "--gpuperf-against", "HEAD", "--gpuperf-json=r.json",
        "--gpuperf-markdown", "r.md", "--gpuperf-gitlab=g.json", "--gpuperf-prometheus", "r.prom",
        "--gpuperf-strict", "-x", "--junitxml=j.xml", "-n", "4",
        "-n4", "--maxfail=1", "--cov", "--cov=src", "--gpuperf-pairs", "16", "-v", "tests",
    ) == ("tests",)  # fmt: skip


def test_absolute_paths_below_the_checkout_move_and_others_stay():
    assert arguments("/repo/tests/test_a.py::test_b", "--rootdir=/repo", "/elsewhere/x.py") == (
        f"{TREE}/tests/test_a.py::test_b", f"--rootdir={TREE}", "/elsewhere/x.py",
    )  # fmt: skip
    assert arguments("/repo/tests", tree=None) == ("/repo/tests",)


def test_plugins_that_would_change_the_order_stand_back():
    assert arguments(plugins=["xdist", "randomly"]) == ("-n0", "-p", "no:randomly")


def test_module_folders_are_those_of_the_checkout_and_not_of_an_environment_in_it(
    tmp_path, monkeypatch
):
    for folder in ("src/pkg", ".venv/lib/site-packages/other", "lib/by_hook"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(
        sys, "path", [str(tmp_path / "src"), str(tmp_path / ".venv/lib/site-packages"), "/usr/lib"]
    )
    module = type(sys)("by_hook")
    module.__file__ = str(tmp_path / "lib/by_hook/__init__.py")
    monkeypatch.setitem(sys.modules, "by_hook", module)
    folders = module_folders(tmp_path)
    assert folders == (tmp_path / "src", tmp_path / "lib")
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    assert moved_folders(folders, tmp_path, tree) == (str(tree / "src"),)
    assert not is_below(Path("/usr/lib"), tmp_path)


def test_the_interpreter_of_an_environment_is_found(tmp_path):
    assert interpreter(None) == sys.executable
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    assert interpreter(str(tmp_path)) == interpreter(str(python)) == str(python)
    with pytest.raises(AgainstError, match="neither a Python nor a folder"):
        interpreter(str(tmp_path / "nothing"))


SITE = "/env/site-packages"


@pytest.mark.parametrize(
    ("changed", "name", "here", "there", "same"),
    [
        # Each its own file: fine.
        ("src/pkg/a.py", "pkg.a", "/repo/src/pkg/a.py", "/t/src/pkg/a.py", False),
        # The revision's process imported the working tree's.
        ("src/pkg/a.py", "pkg.a", "/repo/src/pkg/a.py", "/repo/src/pkg/a.py", True),
        # The same, but the file did not change: equal code is equal code.
        ("src/pkg/b.py", "pkg.a", "/repo/src/pkg/a.py", "/repo/src/pkg/a.py", False),
        # Both import an installed copy of what changed.
        ("src/pkg/a.py", "pkg.a", f"{SITE}/pkg/a.py", f"{SITE}/pkg/a.py", True),
        ("pkg/__init__.py", "pkg", f"{SITE}/pkg/__init__.py", f"{SITE}/pkg/__init__.py", True),
        ("src/single.py", "single", f"{SITE}/single.py", f"{SITE}/single.py", True),
        # A file of the same name elsewhere is another module.
        ("tests/single.py", "single", f"{SITE}/single.py", f"{SITE}/single.py", False),
        ("docs/a.py", "pkg.a", f"{SITE}/pkg/a.py", f"{SITE}/pkg/a.py", False),
        # A compiled extension whose sources changed.
        ("pkg/csrc/k.cu", "pkg._C", f"{SITE}/pkg/_C.so", f"{SITE}/pkg/_C.so", True),
        ("pkg/csrc/k.cu", "torch._C", f"{SITE}/torch/_C.so", f"{SITE}/torch/_C.so", False),
        ("pkg/csrc/k.cu", "pkg._C", "/repo/pkg/_C.so", "/t/pkg/_C.so", False),
    ],
)  # fmt: skip
def test_both_sides_importing_one_file_that_changed_is_told(changed, name, here, there, same):
    found = same_code([changed], {name: here}, {name: there}, TOP)
    assert bool(found) is same
    if same:
        assert changed in found
        assert "--gpuperf-against" in found


def test_extensions_built_in_the_tree_are_told(tmp_path):
    here = {"pkg._C": str(tmp_path / "pkg" / "_C.so"), "torch._C": f"{SITE}/torch/_C.so"}
    (note,) = extension_notes(here, {}, tmp_path)
    assert "pkg._C (pkg/_C.so) was not loaded at the revision" in note


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('[project]\ndependencies = ["torch==2.1"]', '[project]\ndependencies = ["torch==2.2"]', 1),
        ('[project]\nversion = "1"\ndependencies = ["torch"]',
         '[project]\nversion = "2"\ndependencies = ["torch"]', 0),
        ("[tool.ruff]\nx = 1", "[tool.ruff]\nx = 2", 0),
        ("not toml [", "not toml either [", 1),
    ],
)  # fmt: skip
def test_dependencies_that_differ_are_told(tmp_path, monkeypatch, before, after, told):
    monkeypatch.setattr("pytest_gpuperf.baselines.against.imports.git", lambda *_: before)
    (tmp_path / "pyproject.toml").write_text(after)
    changed = ["pyproject.toml", "src/pkg/requirements.py"]
    notes = dependency_notes(tmp_path, "HEAD", changed, own_environment=False)
    assert len(notes) == told
    if told:
        assert "--gpuperf-against-env" in notes[0]
        (note,) = dependency_notes(tmp_path, "HEAD", changed, own_environment=True)
        assert "it ran in the environment" in note


def test_a_requirements_file_says_nothing_but_dependencies(tmp_path):
    assert dependency_notes(tmp_path, "HEAD", ["requirements-dev.txt"], own_environment=False)
    assert not dependency_notes(tmp_path, "HEAD", ["src/requirements.py"], own_environment=False)


def test_versions_that_differ_are_told():
    assert version_notes(
        {"torch": "2.13", "python": "3.11"}, {"torch": "2.12", "python": "3.11"}
    ) == ["torch 2.13 here, 2.12 at the revision"]
