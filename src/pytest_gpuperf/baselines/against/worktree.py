"""Another revision of the repository, checked out beside it, and nothing left of it afterwards.

A worktree in a temporary folder: the user's own is not touched, nor is its index. While it is
used a lock file beside it is held; the system lets go of it however the process ends, so that the
next start finds what a killed one left and removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "gpuperf-against-"
_LOCK = "in-use"
_TREE = "tree"
_ASK_S = 60
_CHECKOUT_S = 600


class AgainstError(Exception):
    """Why there is no comparison with the revision: one line, with the mend."""


def git(folder: Path, *arguments: str, timeout: float = _ASK_S) -> str:
    """Output of a git command in `folder`.

    Raises
    ------
    AgainstError
        It fails, takes too long, or git is not here.
    """
    try:
        done = subprocess.run(
            # No hook of the repository's runs: they are the user's, for the user's own work.
            ["git", "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=timeout,
            check=False,
            env=_environment(),
        )
    except subprocess.TimeoutExpired:
        raise AgainstError(f"git {arguments[0]} took over {timeout:.0f} s") from None
    except OSError as error:
        raise AgainstError(f"git cannot be run ({error.strerror})") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
        raise AgainstError(f"git {arguments[0]}: {said.removeprefix('fatal: ')}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Ours without what a surrounding git (a hook, a rebase) says of its own repository."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def toplevel(folder: Path) -> Path:
    """The root of the checkout that holds `folder`.

    Raises
    ------
    AgainstError
        There is none.
    """
    try:
        return Path(git(folder, "rev-parse", "--show-toplevel").removesuffix("\n")).resolve()
    except AgainstError as error:
        raise AgainstError(
            f"{folder} is not in a git checkout that can be read ({error}): "
            "--gpuperf-against compares with a revision of one"
        ) from None


def commit_of(top: Path, revision: str) -> str:
    """The full hash of `revision`.

    Raises
    ------
    AgainstError
        It is none.
    """
    try:
        found = git(top, "rev-parse", "--verify", "--quiet", "--end-of-options",
                    f"{revision}^{{commit}}")  # fmt: skip
    except AgainstError:
        found = ""
    if not found.strip():
        raise AgainstError(
            f"{revision!r} is no revision of {top}: name a commit, branch or tag that "
            "`git rev-parse` knows (a shallow clone lacks older ones: git fetch --unshallow)"
        )
    return found.strip()


@contextlib.contextmanager
def checked_out(top: Path, commit: str) -> Iterator[Path]:
    """The worktree of `commit`, removed with everything in it when the block ends.

    What an earlier run that was killed left behind is removed first.

    Raises
    ------
    AgainstError
        The checkout fails.
    """
    from filelock import FileLock

    remove_stale(top)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    lock = FileLock(str(folder / _LOCK))
    lock.acquire()
    try:
        tree = folder / _TREE
        git(top, "worktree", "add", "--detach", "--quiet", str(tree), commit, timeout=_CHECKOUT_S)
        yield tree
    finally:
        _remove(top, folder)
        lock.release()


def remove_stale(top: Path) -> list[Path]:
    """Remove the worktrees of ours that no process uses any more; these come back."""
    from filelock import FileLock, Timeout

    removed = []
    for line in git(top, "worktree", "list", "--porcelain").splitlines():
        if not line.startswith("worktree "):
            continue
        tree = Path(line.removeprefix("worktree "))
        folder = tree.parent
        if tree.name != _TREE or not folder.name.startswith(PREFIX):
            continue
        if folder.exists():
            lock = FileLock(str(folder / _LOCK))
            try:
                lock.acquire(timeout=0)
            except (Timeout, OSError):
                continue  # another run's, which is under way or of another user
            lock.release()
        _remove(top, folder)
        removed.append(folder)
    return removed


def _remove(top: Path, folder: Path) -> None:
    """Remove `folder`, and git's note of the worktree in it."""
    with contextlib.suppress(AgainstError):
        git(top, "worktree", "remove", "--force", "--force", str(folder / _TREE))
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(AgainstError):
        git(top, "worktree", "prune")


def changed_files(top: Path, commit: str) -> tuple[str, ...]:
    """Paths, from the root, that differ between `commit` and the working tree, new ones too."""
    tracked = git(top, "diff", "--name-only", "-z", "--no-renames", commit)
    new = git(top, "ls-files", "--others", "--exclude-standard", "-z")
    return tuple(dict.fromkeys(p for p in (tracked + new).split("\0") if p))


def is_dirty(top: Path) -> bool:
    """Whether the working tree differs from its own commit, or holds files that it does not."""
    return bool(git(top, "status", "--porcelain").strip())
