"""Strings, categories and tracks as small integers: each distinct one kept once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gpuperf_analyzers.trace.model import I8, I32, Category


class _Ids(dict[Any, int]):
    """A dict whose missing keys get the next id; a hit costs no Python call."""

    def __init__(self, values: list[str]) -> None:
        super().__init__()
        self._values = values

    def __missing__(self, key: Any) -> int:
        if isinstance(key, str):
            self._values.append(key)
            self[key] = new = len(self._values) - 1
        elif isinstance(key, bytes):
            self[key] = new = self[key.decode("utf-8", "replace")] if key else -1
        else:
            self[key] = new = -1 if key is None else self[str(key)]
        return new


class Strings:
    """Interned strings; ids index :attr:`values`, -1 is absent."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._ids = _Ids(self.values)

    def texts(self, values: list[Any]) -> I32:
        """Ids of decoded JSON values; None is absent, what is not a string becomes one."""
        try:
            return np.fromiter(map(self._ids.__getitem__, values), np.int32, len(values))
        except TypeError:  # a list or dict where a name belongs
            texts = [None if isinstance(v, (list, dict)) else v for v in values]
            return np.fromiter(map(self._ids.__getitem__, texts), np.int32, len(texts))

    def names(self, values: list[Any]) -> I32:
        """As :meth:`texts`; what has no name is named "", so that every event has a string."""
        ids = self.texts(values)
        if len(ids) and ids.min() < 0:
            ids[ids < 0] = self._ids[""]
        return ids

    def raws(self, values: Iterable[Any], count: int) -> I32:
        """Ids of raw JSON texts; an empty one is absent."""
        return np.fromiter(map(self._ids.__getitem__, map(bytes, values)), np.int32, count)


_CATEGORY = {
    "kernel": Category.KERNEL,
    "concurrent_kernel": Category.KERNEL,
    "memcpy": Category.OLD_MEMORY,
    "gpu_memcpy": Category.MEMCPY,
    "memset": Category.OLD_MEMORY,
    "gpu_memset": Category.MEMSET,
    "cpu_op": Category.CPU_OP,
    "operator": Category.CPU_OP,
    "user_annotation": Category.USER_ANNOTATION,
    "gpu_user_annotation": Category.GPU_USER_ANNOTATION,
    "python_function": Category.PYTHON_FUNCTION,
    "cuda_sync": Category.SYNC,
    "overhead": Category.OVERHEAD,
    "trace": Category.SPAN,
    "runtime": Category.RUNTIME,
    "driver": Category.DRIVER,
    "cuda_profiler_range": Category.COUNTER_RANGE,
}


def category(cat: object) -> Category:
    """The kind of an event from its ``cat``, case-insensitively."""
    name = str(cat).lower()
    if name.startswith("mtia"):
        return Category.MTIA
    if name.endswith("_runtime"):
        return Category.RUNTIME
    if name.endswith("_driver"):
        return Category.DRIVER
    return _CATEGORY.get(name, Category.OTHER)


class Categories(dict[Any, int]):
    """Category codes by ``cat``, each spelling looked at once."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = int(category(key))
        return code

    def codes(self, values: list[Any]) -> I8:
        """Codes of decoded ``cat`` fields."""
        try:
            return np.fromiter(map(self.__getitem__, values), np.int8, len(values))
        except TypeError:  # unhashable: not a category
            texts = [v if isinstance(v, str) else "" for v in values]
            return np.fromiter(map(self.__getitem__, texts), np.int8, len(values))


class _TrackIds(dict[tuple[Any, Any], int]):
    """Ids of (pid, tid) as decoded; odd spellings share the id of their clean one."""

    def __init__(self, values: list[tuple[int | str, int | str]]) -> None:
        super().__init__()
        self._values = values

    def __missing__(self, key: tuple[Any, Any]) -> int:
        clean = (track_part(key[0]), track_part(key[1]))
        known = self.get(clean)
        if known is None:
            self._values.append(clean)
            self[clean] = known = len(self._values) - 1
        return known


def track_part(value: Any) -> int | str:
    """A pid or tid as the model holds it; "" where there is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, (int, str)):
        return value
    return "" if value is None else f"({type(value).__name__})"


class Tracks:
    """Ids of (pid, tid); :attr:`values` lists them."""

    def __init__(self) -> None:
        self.values: list[tuple[int | str, int | str]] = []
        self._ids = _TrackIds(self.values)

    def ids(self, pids: list[Any], tids: list[Any]) -> I32:
        """Track ids of decoded pid and tid fields."""
        pairs = zip(pids, tids, strict=True)
        try:
            return np.fromiter(map(self._ids.__getitem__, pairs), np.int32, len(pids))
        except TypeError:  # a list or dict where a number belongs
            clean = [(track_part(p), track_part(t)) for p, t in zip(pids, tids, strict=True)]
            return np.fromiter(map(self._ids.__getitem__, clean), np.int32, len(clean))
