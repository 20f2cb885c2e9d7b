"""Whether each side ran its own code: the files that were imported, against those that changed.

And what else makes two sides less comparable than they look: dependencies that are declared
otherwise, compiled extensions that are the same file on both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_gpuperf.baselines.against.worktree import AgainstError, git

_COMPILED_SOURCES = {".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".pyx", ".pxd",
                     ".rs", ".f90", ".hip"}  # fmt: skip
_EXTENSIONS = (".so", ".pyd")
_DEPENDENCY_FILES = ("setup.py", "setup.cfg", "poetry.lock", "uv.lock", "pdm.lock", "Pipfile",
                     "Pipfile.lock", "environment.yml", "environment.yaml")  # fmt: skip
_SHOWN = 3


def same_code(
    changed: Sequence[str], here: Mapping[str, str], there: Mapping[str, str], top: Path
) -> str:
    """Why the two sides did not each run their own code; "" where they did.

    Parameters
    ----------
    changed
        Paths, from the root, that differ between the two revisions.
    here, there
        File of each module that was loaded on either side.
    top
        Root of the working tree.
    """
    files = set(changed)
    for name, file in there.items():
        if here.get(name) != file:
            continue
        path = _changed_path(name, file, files, top)
        if path:
            return (
                f"both sides imported {file} as {name}, although {path} changed: the package is "
                "installed in a way that hides the revision's own; install it editable, or give "
                "the revision an environment with --gpuperf-against-env"
            )
    return _same_extension(changed, here, there)


def _changed_path(name: str, file: str, changed: set[str], top: Path) -> str:
    """The changed path that the module `name` at `file` is made of; "" where it is of none."""
    if not file.endswith(".py"):
        return ""
    try:
        inside = Path(file).relative_to(top).as_posix()
    except ValueError:
        inside = ""
    if inside:
        return inside if inside in changed else ""
    # An installed copy: the path of a package's module ends with its dotted name.
    dotted = name.replace(".", "/")
    wanted = f"{dotted}/__init__.py" if file.endswith("__init__.py") else f"{dotted}.py"
    if "/" not in wanted:
        return next((p for p in sorted(changed) if p in (wanted, f"src/{wanted}")), "")
    return next((p for p in sorted(changed) if p == wanted or p.endswith(f"/{wanted}")), "")


def _same_extension(
    changed: Sequence[str], here: Mapping[str, str], there: Mapping[str, str]
) -> str:
    sources = [p for p in changed if PurePosixPath(p).suffix in _COMPILED_SOURCES]
    if not sources:
        return ""
    roots = {PurePosixPath(p).parts[i] for p in changed for i in range(2) if len(
        PurePosixPath(p).parts) > i}  # fmt: skip
    for name, file in there.items():
        ours = name.partition(".")[0] in roots
        if ours and file.endswith(_EXTENSIONS) and here.get(name) == file:
            return (
                f"both sides loaded the compiled extension {file}, although {sources[0]} changed: "
                "build the revision's own with --gpuperf-against-setup, or give it an environment "
                "with --gpuperf-against-env"
            )
    return ""


def extension_notes(here: Mapping[str, str], there: Mapping[str, str], top: Path) -> list[str]:
    """A note on extensions that are built in the working tree, which no checkout brings along."""
    built = [
        (name, file) for name, file in here.items()
        if file.endswith(_EXTENSIONS) and Path(file).is_relative_to(top)
        and "site-packages" not in file and not Path(file).is_relative_to(sys.prefix)
    ]  # fmt: skip
    notes = []
    for name, file in built[:_SHOWN]:
        other = there.get(name)
        where = f"is {other} at the revision" if other else "was not loaded at the revision"
        notes.append(
            f"the compiled extension {name} ({Path(file).relative_to(top)}) {where}: nothing was "
            "built for it unless --gpuperf-against-setup says how"
        )
    return notes


def dependency_notes(
    top: Path, commit: str, changed: Sequence[str], *, own_environment: bool
) -> list[str]:
    """A note where what the project depends on is declared otherwise at `commit`."""
    differ = [path for path in changed if _declares(path) and _differs(top, commit, path)]
    if not differ:
        return []
    files = ", ".join(differ[:_SHOWN]) + (" and more" if len(differ) > _SHOWN else "")
    told = f"dependencies are declared otherwise at the revision ({files})"
    if own_environment:
        return [f"{told}: it ran in the environment of --gpuperf-against-env"]
    mend = "--gpuperf-against-env=PYTHON gives it its own"
    return [f"{told}, and both sides ran in this environment: {mend}"]


def _declares(path: str) -> bool:
    name = PurePosixPath(path).name
    requirements = name.startswith("requirements") and name.endswith((".txt", ".in"))
    return name == "pyproject.toml" or name in _DEPENDENCY_FILES or requirements


def _differs(top: Path, commit: str, path: str) -> bool:
    """Of a pyproject.toml the dependencies count; another file says nothing else."""
    if PurePosixPath(path).name != "pyproject.toml":
        return True
    try:
        before = git(top, "show", f"{commit}:{path}")
    except AgainstError:
        before = ""
    try:
        after = (top / path).read_text(encoding="utf-8")
    except OSError:
        after = ""
    return bool(_dependencies(before) != _dependencies(after))


def _dependencies(text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return text
    project = raw.get("project") or {}
    names = ("requires-python", "dependencies", "optional-dependencies")
    tools = (raw.get("tool") or {}).get("poetry") or {}
    return (
        [project.get(name) for name in names],
        raw.get("dependency-groups"),
        raw.get("build-system"),
        [tools.get(name) for name in ("dependencies", "group")],
    )


def version_notes(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """A note on each version that differs between the environments of the two sides."""
    names = ("python", "torch", "cuda", "hip", "cudnn", "driver")
    return [
        f"{name} {here.get(name, 'none')} here, {there.get(name, 'none')} at the revision"
        for name in names
        if here.get(name) != there.get(name)
    ]
