"""Dense peaks of known devices, and which of them a driver's device name means.

The figures are data (``hardware_data/*.toml``), each with its source and the date it was read.
A device that is not known has no peak: a borrowed one would make every share of it a lie.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from gpuperf_analyzers.declared_devices import parse_devices
from gpuperf_analyzers.device_names import longest_prefix
from gpuperf_analyzers.hookspecs import Peak

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):  # 3.14 has it here alone
        from importlib.resources.abc import Traversable
    else:
        from importlib.abc import Traversable

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

_OTHER_SILICON = frozenset({"laptop", "max-q", "mobile", "d", "ti", "super"})
"""Words that make a longer name another device: a laptop part, a different chip."""


@cache
def builtin_peaks() -> tuple[Peak, ...]:
    """Every device of ``hardware_data``, in file order.

    Raises
    ------
    ValueError
        A data file is malformed; names the file.
    """
    folder = files("gpuperf_analyzers") / "hardware_data"
    tables = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return tuple(peak for table in tables for peak in _devices(table))


def _devices(table: Traversable) -> tuple[Peak, ...]:
    name = f"hardware_data/{table.name}"
    try:
        found = tomllib.loads(table.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name}: {error}") from error
    return parse_devices(found.get("device"), name)


def find_peak(name: str, peaks: Iterable[Peak], *, sms: int | None = None) -> Peak | None:
    """The peak whose longest prefix of the driver's device `name` matches, or None.

    A prefix ends where a word ends (``NVIDIA A10`` is not ``NVIDIA A100``), and what follows may
    not name other silicon: a MIG slice, a laptop part or a ``Ti`` is not its namesake unless a
    peak says so by name. Where the driver's count of multiprocessors `sms` is known and is not
    the peak's, the device is a partition or another part: None.

    Parameters
    ----------
    name
        As the driver gives it.
    peaks
        Built-in and declared peaks; of equal prefixes the later one wins, so that a declaration
        replaces ours.
    sms
        Multiprocessors (compute units on AMD), from the trace's or the driver's properties.
    """
    by_prefix = {prefix: peak for peak in peaks for prefix in peak.names}
    prefix = longest_prefix(name, (p for p in by_prefix if _same_silicon(name[len(p) :])))
    if prefix is None:
        return None
    peak = by_prefix[prefix]
    return None if sms is not None and peak.sms is not None and sms != peak.sms else peak


def _same_silicon(rest: str) -> bool:
    """Whether a device name that goes on with `rest` is still the device named so far."""
    cut_in_a_word = rest[:1].isalnum() or rest[:1] == "/"
    return not cut_in_a_word and _OTHER_SILICON.isdisjoint(rest.lower().split())


def peak_tflops(peak: Peak, dtype: str, accumulator: str = "fp32") -> float | None:
    """Dense TFLOPS of `peak` for `dtype`, or None where it is not published.

    Parameters
    ----------
    peak
        From :func:`find_peak`.
    dtype
        ``fp16``, ``bf16``, ``tf32``, ``fp32``, ``fp64``, ``fp8``, ``int8``, …
    accumulator
        Matters on consumer parts, which run fp16 twice as fast with an fp16 accumulator;
        torch accumulates in fp32 unless told otherwise.
    """
    return peak.tflops.get(f"{dtype}:{accumulator}", peak.tflops.get(dtype))
