"""What each side is run with: interpreter, folder, arguments, module path."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.baselines.against.worktree import AgainstError

HERE, THERE = "here", "there"
"""The working tree, and the revision that it is compared with."""

_OURS_WITH_VALUE = ("against", "against-env", "against-setup", "pairs", "json", "markdown", "html",
                    "gitlab", "prometheus", "dir", "history", "save", "compare",
                    "baselines")  # fmt: skip
_DROPPED = {
    *(f"--gpuperf-{name}" for name in _OURS_WITH_VALUE),
    "--junitxml", "--junit-xml", "--maxfail", "-n", "--numprocesses", "--dist", "--tx",
    "--maxprocesses", "--cov", "--cov-report", "--cov-config", "--cov-fail-under", "--lfnf",
    "--durations", "--durations-min", "--basetemp", "--log-file", "--report-log",
}  # fmt: skip
"""Options that are the parent's alone; their values go with them."""
_DROPPED_FLAGS = {
    "-x", "--exitfirst", "--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first",
    "--sw", "--stepwise", "--sw-skip", "--pdb", "--trace", "--cache-clear", "-v", "-vv", "-q",
    "--gpuperf-report", "--gpuperf-strict", "--gpuperf-only", "--gpuperf-history",
    "--gpuperf-save", "--gpuperf-compare", "--cov", "--no-cov", "-f", "--looponfail",
}  # fmt: skip
_ALWAYS_EQUALS = {"--cov", "--gpuperf-save", "--gpuperf-compare", "--gpuperf-history"}
"""Options whose value, where they have one, is written with ``=``."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison.

    Attributes
    ----------
    name
        ``here`` or ``there``.
    title
        As it is told: ``the working tree``, or the revision.
    python
        Its interpreter.
    folder
        Where pytest is called.
    arguments
        What it is called with.
    module_path
        Folders that modules are looked for in first.
    """

    name: str
    title: str
    python: str
    folder: Path
    arguments: tuple[str, ...]
    module_path: tuple[str, ...]


def pytest_arguments(
    written: Sequence[str], top: Path, tree: Path | None, plugins: Iterable[str]
) -> tuple[str, ...]:
    """The arguments of a side's pytest, from those that the user wrote.

    Relative paths hold on both sides, each in its own folder; absolute ones below `top` are moved
    to `tree` for the revision. Parallel runs, reports and what ends a run early are left out.

    Parameters
    ----------
    written
        As pytest was called.
    top
        Root of the checkout.
    tree
        Root of the revision's worktree; None for the working tree itself.
    plugins
        Names of pytest's plugins that are here, of those that must be told to stand back.
    """
    kept: list[str] = []
    skip = False
    for argument in written:
        name = argument.partition("=")[0]
        if skip:
            skip = False
        elif argument in _DROPPED_FLAGS:
            continue
        elif name in _DROPPED or (name.startswith("-n") and name[2:].isdigit()):
            skip = name == argument and name in _DROPPED and name not in _ALWAYS_EQUALS
        else:
            kept.append(_moved(argument, top, tree))
    quiet = {"xdist": ["-n0"], "pytest_cov": ["--no-cov"], "randomly": ["-p", "no:randomly"],
             "rerunfailures": ["--reruns=0"]}  # fmt: skip
    here = set(plugins)
    more = [argument for name, arguments in quiet.items() if name in here for argument in arguments]
    return (*kept, *more, "-p", "no:cacheprovider", "--continue-on-collection-errors", "-q")


def _moved(argument: str, top: Path, tree: Path | None) -> str:
    """`argument` with an absolute path below `top` moved to `tree`."""
    if tree is None:
        return argument
    option, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", "")
    path, colons, test = (value or argument).partition("::")
    if not os.path.isabs(path):  # noqa: PTH117 - a text that may be anything
        return argument
    try:
        inside = Path(path).resolve().relative_to(top)
    except (OSError, ValueError):
        return argument
    return f"{option}{equals}{tree / inside}{colons}{test}"


def module_folders(top: Path) -> tuple[Path, ...]:
    """Folders below `top` that this process's modules come from, in the order of ``sys.path``.

    Those on the path, which an editable install by path has put there too, and those that the
    modules loaded from below `top` have their top-level package in, which finds editable installs
    by an import hook. Environments that stand in the checkout are none.
    """
    found: dict[Path, None] = {}
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        if is_below(folder, top):
            found[folder] = None
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if is_below(path, top) and path.name != "conftest.py":
            found[path.parent.parent if path.name == "__init__.py" else path.parent] = None
    return tuple(found)


def is_below(path: Path, top: Path) -> bool:
    """Whether `path` is in the checkout and not in an environment that stands there."""
    if path != top and top not in path.parents:
        return False
    if any(Path(p).resolve() in (path, *path.parents) for p in (sys.prefix, sys.base_prefix)):
        return Path(sys.prefix).resolve() in top.parents
    return "site-packages" not in path.parts


def moved_folders(folders: Iterable[Path], top: Path, tree: Path) -> tuple[str, ...]:
    """The same folders of the revision; what it does not have is left out."""
    moved = (tree / folder.relative_to(top) for folder in folders)
    return tuple(str(folder) for folder in moved if folder.is_dir())


def interpreter(written: str | None) -> str:
    """The Python that the revision runs on: the one given, that of the folder given, or ours.

    Raises
    ------
    AgainstError
        There is none.
    """
    if not written:
        return sys.executable
    given = Path(written).expanduser().absolute()
    for candidate in (given, given / "bin" / "python", given / "Scripts" / "python.exe"):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    raise AgainstError(
        f"--gpuperf-against-env={written}: neither a Python nor a folder of an environment"
    )
