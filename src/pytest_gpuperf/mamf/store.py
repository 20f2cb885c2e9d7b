"""A finished search's maximum, put where ``mamf_share`` and the fixture ``gpuperf_mamf`` look."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pytest_gpuperf.mamf.writing import write_json
from pytest_gpuperf.recording.mamf_cache import CachedMamf, mamf_path, read_cached


def keep(found: CachedMamf, *, replace: bool = False) -> tuple[Path, CachedMamf]:
    """Put `found` into the cache unless a higher maximum is there.

    It is the *maximum* achievable rate: a search of fewer or smaller shapes must not lower it.

    Parameters
    ----------
    found
        Of a search that came to its end.
    replace
        Put it there even where it is lower.

    Returns
    -------
    tuple
        The file, and what it holds now.

    Raises
    ------
    OSError
        The cache cannot be written.
    """
    path = mamf_path(found.machine, found.dtype)
    there = read_cached(path, found.machine, found.dtype)
    if there is not None and there.tflops >= found.tflops and not replace:
        return path, there
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(found))
    return path, found
