"""Which environments can be compared: the key of a baseline, and what differs between two.

On a GPU: the driver's name of the device, driver, CUDA (or HIP), torch, the power limit and the
clock policy. On a CPU: its model, the cores that this process may use, torch and its threads (with
one, some ops take another path and call other ops). What is not in the key (Python, the kernel,
cuDNN) does not forbid a comparison: it is listed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

ON_GPU = ("device", "driver", "cuda", "hip", "torch", "power_limit", "clocks")
ON_CPU = ("device", "cpu_model", "cores", "threads", "torch")
_NOT_CONDITIONS = frozenset({"commit", *ON_GPU, *ON_CPU})
_NAMES = {
    "device": "device", "driver": "driver", "cuda": "CUDA", "hip": "HIP", "torch": "torch",
    "power_limit": "power limit", "clocks": "clocks", "cpu_model": "CPU", "cores": "cores",
    "cudnn": "cuDNN", "python": "Python", "threads": "torch threads", "platform": "platform",
}  # fmt: skip
_LONGEST_STEM = 80
_DIGEST = 8
_MACHINES = ("x86_64", "aarch64", "arm64", "ppc64le", "riscv64")


def key_of(environment: Mapping[str, str], device_type: str) -> dict[str, str]:
    """What must be equal for two measurements to be compared; only what is known is there.

    Parameters
    ----------
    environment
        As a recording has it.
    device_type
        ``cpu`` or ``cuda``.
    """
    names = ON_CPU if device_type == "cpu" else ON_GPU
    return {name: environment[name] for name in names if environment.get(name)}


def others_of(environment: Mapping[str, str], key: Mapping[str, str]) -> dict[str, str]:
    """What else is known of an environment; it may differ, and is listed where it does."""
    machine = {n: environment[n] for n in ("cpu_model", "cores") if environment.get(n)}
    rest = {n: v for n, v in environment.items() if n not in _NOT_CONDITIONS and v}
    return {n: v for n, v in sorted({**rest, **machine}.items()) if n not in key}


def stem(key: Mapping[str, str]) -> str:
    """Name of the key's file, without its suffix: readable, and different for each key."""
    titles = {"cores": "{}-cores", "threads": "{}-threads", "torch": "torch-{}", "cuda": "cuda-{}"}
    parts = [
        titles.get(name, "{}").format(key[name])
        for name in ("device", "cpu_model", *titles)
        if key.get(name)
    ]
    text = re.sub(r"\([^)]*\)|\bCPU\b|@.*?GHz", "", " ".join(parts)) if parts else "unknown"
    plain = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "unknown"
    if key.get("device") == "cpu":
        plain = plain if plain.startswith("cpu") else f"cpu-{plain}"
    exact = "\0".join(f"{name}={key[name]}" for name in sorted(key))
    digest = hashlib.sha256(exact.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST]
    return f"{plain[:_LONGEST_STEM]}-{digest}"


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """One clause for each thing that differs: ``torch 2.12.0 in the baseline, 2.13.0 here``."""
    names = [n for n in _NAMES if n in before or n in after]
    names += sorted({*before, *after} - set(_NAMES))
    return tuple(
        f"{_NAMES.get(n, n)} {_said(n, before)} in the baseline, {_said(n, after)} here"
        for n in names
        if before.get(n) != after.get(n)
    )


def counts_agree(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether counts of two CPU environments may be compared where a project allows it.

    These are the ops that a release of torch calls: whichever of its builds it is (``+cpu``), on
    one instruction set, with one thread or with several.

    Parameters
    ----------
    before, after
        Key and other conditions of each, together.
    """
    if not before.get("device") == after.get("device") == "cpu":
        return False
    releases = [(e.get("torch") or "").partition("+")[0] for e in (before, after)]
    alone = [e.get("threads") == "1" for e in (before, after)]
    same = releases[0] == releases[1] and alone[0] == alone[1]
    return bool(releases[0]) and same and _machine(before) == _machine(after)


def _machine(environment: Mapping[str, str]) -> str:
    """The instruction set that the platform's name tells, "" where it does not."""
    platform = environment.get("platform", "")
    return next((machine for machine in _MACHINES if machine in platform), "")


def _said(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name) or "unknown"
