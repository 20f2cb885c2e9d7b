"""The revision's worktree: made, and gone whatever ends it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_gpuperf.baselines.against import worktree
from pytest_gpuperf.baselines.against.worktree import (
    AgainstError,
    changed_files,
    checked_out,
    commit_of,
    is_dirty,
    remove_stale,
    toplevel,
)

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]


def git(folder, *arguments):
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Two commits of one file, and a temporary folder of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    for text in ("one", "two"):
        (top / "file").write_text(text)
        git(top, "add", "-A")
        git(top, "commit", "-qm", text)
    return top


def listed(top):
    return worktree.git(top, "worktree", "list").splitlines()


def left(top):
    return [*listed(top)[1:], *(p.name for p in Path(tempfile.gettempdir()).iterdir())]


def test_the_revision_is_there_and_the_users_files_are_as_they_were(repository):
    (repository / "file").write_text("edited")
    with checked_out(repository, commit_of(repository, "HEAD~1")) as tree:
        assert (tree / "file").read_text() == "one"
        assert (repository / "file").read_text() == "edited"
        assert is_dirty(repository)
    assert left(repository) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_whatever_ends_it(repository, error):
    def measure():
        with checked_out(repository, "HEAD") as tree:
            (tree / "new").write_text("written by a test")
            raise error

    with pytest.raises(error):
        measure()
    assert left(repository) == []


def test_what_a_killed_run_left_is_removed_at_the_next_start(repository):
    code = f"""
import os, signal, tempfile
from pathlib import Path
from pytest_gpuperf.baselines.against.worktree import checked_out
tempfile.tempdir = {tempfile.gettempdir()!r}
with checked_out(Path({str(repository)!r}), "HEAD"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert len(left(repository)) == 2  # git's note of it, and the folder
    assert len(remove_stale(repository)) == 1
    assert left(repository) == []


def test_a_worktree_in_use_and_the_users_own_are_left_alone(repository, tmp_path):
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "mine"))
    with checked_out(repository, "HEAD") as tree:
        assert remove_stale(repository) == []
        assert tree.is_dir()
    assert (tmp_path / "mine" / "file").is_file()


def test_a_worktree_whose_folder_is_gone_is_forgotten(repository):
    with checked_out(repository, "HEAD") as tree:
        subprocess.run(["rm", "-rf", str(tree.parent)], check=True)
    assert left(repository) == []


def test_one_line_says_why_there_is_no_checkout(repository, tmp_path):
    with pytest.raises(AgainstError, match="'nowhere' is no revision"):
        commit_of(repository, "nowhere")
    with pytest.raises(AgainstError, match="'--help' is no revision"):
        commit_of(repository, "--help")
    with pytest.raises(AgainstError, match="not in a git checkout"):
        toplevel(tmp_path)
    with pytest.raises(AgainstError, match="git worktree: "), checked_out(repository, "0" * 40):
        pass
    assert left(repository) == []


def test_no_hook_of_the_repository_runs(repository):
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repository}/ran\n")
    hook.chmod(0o755)
    with checked_out(repository, "HEAD"):
        pass
    assert not (repository / "ran").exists()


def test_changed_files_are_those_edited_committed_since_and_new(repository):
    (repository / "file").write_text("three")
    (repository / "späte datei\n").write_text("new")
    assert changed_files(repository, commit_of(repository, "HEAD")) == ("file", "späte datei\n")
    (repository / "file").write_text("two")
    assert changed_files(repository, commit_of(repository, "HEAD")) == ("späte datei\n",)


def test_a_surrounding_hooks_environment_does_not_lead_elsewhere(repository, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere/.git")
    assert toplevel(repository) == repository.resolve()


def test_git_that_is_not_here_is_one_line(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AgainstError, match="git cannot be run"):
        worktree.git(repository, "status")
