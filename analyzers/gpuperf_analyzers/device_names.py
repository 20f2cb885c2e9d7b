"""Which entry of a table by device name belongs to a device.

Limits by device and tables of peaks use the same rule. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable


def longest_prefix(name: str, candidates: Iterable[str]) -> str | None:
    """The longest of `candidates` that begins the driver's device name, None where none does.

    Case is ignored. A number is never cut in two: ``NVIDIA A10`` does not begin
    ``NVIDIA A100-SXM4-40GB``. A MIG slice is another device than its parent: only a candidate
    that names the slice matches it.
    """
    fitting = [c for c in candidates if c and _begins(c, name)]
    return max(fitting, key=len, default=None)


def is_mig(name: str) -> bool:
    """Whether a driver's device name is that of a MIG slice."""
    return " mig " in f" {name.lower()} "


def _begins(prefix: str, name: str) -> bool:
    if not name.lower().startswith(prefix.lower()):
        return False
    if is_mig(name) and not is_mig(prefix):
        return False
    rest = name[len(prefix) :]
    return not (prefix[-1].isdigit() and rest[:1].isdigit())
