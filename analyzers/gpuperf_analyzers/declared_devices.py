"""``[[device]]`` tables as peaks: the built-in ones and a user's own are checked alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from gpuperf_analyzers.hookspecs import Peak

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
ACCUMULATORS = ("fp16", "fp32")
_NUMBERS = ("memory_gb_s", "link_gb_s", "l2_mib", "capacity_gb")
_TEXTS = ("source", "checked")
_KEYS = ("names", "tflops", "sms", "details", *_NUMBERS, *_TEXTS)


class DeclarationError(ValueError):
    """What a file declares cannot be used: one line that names the file and the mend."""


def parse_devices(written: object, where: str) -> tuple[Peak, ...]:
    """The peaks that a list of device tables declares.

    Parameters
    ----------
    written
        What stands under ``device``.
    where
        The file, for messages.

    Raises
    ------
    DeclarationError
        Not such a list, or a device with a key, dtype or figure that cannot be: one line that
        names the file and the device.
    """
    if not isinstance(written, list) or not written:
        raise DeclarationError(f"gpuperf: {where}: write each device as a [[device]] table")
    return tuple(
        _device(entry, f"gpuperf: {where}: device {number}")
        for number, entry in enumerate(written, start=1)
    )


def _device(entry: object, at: str) -> Peak:
    if not isinstance(entry, Mapping):
        raise DeclarationError(f"{at} is not a table")
    for key in entry:
        _known(key, _KEYS, f"{at}: the key")
    names = entry.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n for n in names):
        raise DeclarationError(f'{at} needs names = ["..."], as the driver spells them')
    at = f"{at} ({names[0]})"
    sms = entry.get("sms")
    if sms is not None and (isinstance(sms, bool) or not isinstance(sms, int) or sms < 1):
        raise DeclarationError(f"{at}: sms must be a whole number above 0, not {sms!r}")
    numbers = {key: _number(entry[key], f"{at}: {key}") for key in _NUMBERS if key in entry}
    texts = {key: str(entry[key]) for key in _TEXTS if key in entry}
    return Peak(
        names=tuple(names),
        tflops=_tflops(entry.get("tflops"), at),
        sms=sms,
        details=_table(entry.get("details", {}), f"{at}: details"),
        **numbers,  # type: ignore[arg-type]
        **texts,  # type: ignore[arg-type]
    )


def _tflops(written: object, at: str) -> dict[str, float]:
    if not isinstance(written, Mapping) or not written:
        raise DeclarationError(f"{at} needs dense peaks: tflops = {{ bf16 = 100.0 }}")
    for name in written:
        dtype, colon, accumulator = str(name).partition(":")
        _known(dtype, DTYPES, f"{at}: tflops: the dtype")
        if colon:
            _known(accumulator, ACCUMULATORS, f"{at}: tflops: {dtype}: the accumulator")
    return _table(written, f"{at}: tflops")


def _table(written: object, at: str) -> dict[str, float]:
    if not isinstance(written, Mapping):
        raise DeclarationError(f"{at} is not a table")
    return {str(key): _number(value, f"{at}: {key}") for key, value in written.items()}


def _number(value: Any, at: str) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (good and math.isfinite(value) and value > 0):
        raise DeclarationError(f"{at} must be a number above 0, not {value!r}")
    return float(value)


def _known(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        near = get_close_matches(name, known, n=1) or known
        raise DeclarationError(f"{what} {name!r} is unknown: write {' or '.join(near)}")
