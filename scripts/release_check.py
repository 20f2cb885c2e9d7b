"""What a release wants: equal bytes from two builds, and dependencies for every Python.

Run as ``python scripts/release_check.py``: builds wheel and sdist from two copies of what is
tracked here, made at different times, and prints their hashes; then has pip resolve the wheel's
dependencies, from wheels alone, for each Python that it says it runs on. Exit status 1 where one
of it fails.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EPOCH = "1767225600"  # 2026-01-01; a release takes its commit's time instead
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
EXTRAS = ("", "zstd,remote,dask,parquet,plot,prometheus")
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", "*.pyc", ".*_cache", ".gpuperf", ".hypothesis", "dist"
)


def built(folder: Path, epoch: str = EPOCH, root: Path = ROOT) -> dict[str, str]:
    """SHA-256 of wheel and sdist, by file name, of a copy of `root` made in `folder`."""
    source, target = folder / "source", folder / "dist"
    shutil.copytree(root, source, ignore=_LEFT_OUT)
    for path in source.rglob("*"):
        os.utime(path)  # a checkout's times are those of the checkout
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(target)],
        cwd=source, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, check=True,
        capture_output=True,
    )  # fmt: skip
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(target.iterdir())}


def resolved(wheel: Path, python: str, extras: str) -> str:
    """What pip says where it finds no wheel of a dependency for `python`; empty where all are.

    pip chooses wheels by `python`, but evaluates markers by the Python that it runs on: what
    depends on the version is asked for as that version would.
    """
    if python == "3.14":
        extras = extras.removeprefix("zstd,")  # it has zstd of its own
    wanted = [f"{wheel}[{extras}]" if extras else str(wheel)]
    if python == "3.10":
        wanted.append("tomli>=2")
    with tempfile.TemporaryDirectory() as nowhere:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed",
             "--only-binary=:all:", f"--python-version={python}", f"--target={nowhere}", *wanted],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def main() -> int:
    """Both checks; 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epoch", default=EPOCH, help="SOURCE_DATE_EPOCH (%(default)s)")
    args = parser.parse_args()
    bad = False
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        ours, again = (
            built(Path(first), args.epoch),
            built(Path(second), args.epoch, Path(first) / "source"),
        )
        for name, digest in ours.items():
            same = again.get(name) == digest
            bad |= not same
            print(f"{digest}  {name}  {'same bytes twice' if same else 'DIFFERS'}")
        (wheel,) = (Path(first) / "dist").glob("*.whl")
        for python in PYTHONS:
            for extras in EXTRAS:
                why = resolved(wheel, python, extras)
                bad |= bool(why)
                print(f"{python} [{extras}] {why or 'resolves'}", flush=True)
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
