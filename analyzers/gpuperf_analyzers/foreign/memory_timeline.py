"""Memory timelines of torch.profiler's ``export_memory_timeline`` (``.json``, ``.raw.json.gz``).

The first is ``[times in µs, bytes by category]``; its rows begin with a 0 that stands for nothing.
The second is a list of ``(time in ns, action, bytes, category)``. Actions: 1 was there before,
2 create, 3 another version of the same bytes, 4 destroy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gpuperf_analyzers.foreign.model import ForeignError, Reading, Sheet
from gpuperf_analyzers.metrics import Value

KIND = "torch memory timeline"
CATEGORIES = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient",
    "autograd detail", "unknown",
)  # fmt: skip
"""In torch's own order."""
_CREATED, _CHANGED, _DESTROYED = frozenset({1, 2}), 3, 4
_MOST = 1 << 62


def read_memory_timeline(path: str, text: str) -> Reading:
    """Peak of all categories together, and what was alive then.

    Raises
    ------
    ForeignError
        Not whole, or not one of the two layouts.
    """
    try:
        document = msgspec.json.decode(text)
        totals = _coalesced(document) if _is_coalesced(document) else _raw(document)
    except (msgspec.MsgspecError, ValueError, TypeError, IndexError, RecursionError) as error:
        raise ForeignError(
            f"{path}: not a memory timeline of torch ({error}): export it as .json or .raw.json.gz"
        ) from None
    if not totals:
        raise ForeignError(f"{path}: a memory timeline without a moment")
    peak_at = max(range(len(totals)), key=lambda i: (sum(totals[i][1]), -i))
    at_us, alive = totals[peak_at]
    peak = sum(alive)
    # What was there before the profiler stands at -1.
    first = next((at for at, _ in totals if at > 0), at_us)
    rows = tuple(
        (name, size, size / peak if peak else 0.0)
        for name, size in sorted(zip(CATEGORIES, alive, strict=True), key=lambda pair: -pair[1])
    )
    found = Value("peak_memory", float(peak), n=len(totals), source=_source(at_us - first))
    return Reading(
        path, KIND, "", "",
        parts={"": {"peak_memory": found}},
        sheets=(Sheet("alive at the peak", ("category", "bytes", "share"), rows),),
    )  # fmt: skip


def _source(after_us: float) -> str:
    return f"torch memory timeline, peak {max(0.0, after_us) / 1e3:.3f} ms after its begin"


Moment = tuple[float, tuple[int, ...]]


def _is_coalesced(document: Any) -> bool:
    return (
        isinstance(document, list) and len(document) == 2
        and all(isinstance(part, list) for part in document)
        and (not document[1] or isinstance(document[1][0], list))
    )  # fmt: skip


def _coalesced(document: Sequence[Any]) -> list[Moment]:
    times, sizes = document
    if len(times) != len(sizes):
        raise ValueError(f"{len(times)} times and {len(sizes)} rows")
    found = []
    for at, row in zip(times, sizes, strict=True):
        if len(row) != len(CATEGORIES) + 1:
            raise ValueError(f"a row of {len(row)} numbers, not of {len(CATEGORIES) + 1}")
        found.append((float(at), tuple(_bytes(size) for size in row[1:])))
    return found


def _raw(document: Sequence[Any]) -> list[Moment]:
    alive = [0] * len(CATEGORIES)
    found: list[Moment] = []
    for at, action, size, category in document:
        if not 0 <= int(category) < len(CATEGORIES):
            raise ValueError(f"category {category}")
        # A changed version is told as two events, the old one's bytes being negative.
        signed = _bytes(size)
        if action == _DESTROYED:
            signed = -abs(signed)
        elif action != _CHANGED and action not in _CREATED:
            raise ValueError(f"action {action}")
        alive[int(category)] += signed
        found.append((float(at) / 1e3, tuple(alive)))
    return found


def _bytes(size: Any) -> int:
    value = int(size)
    if abs(value) >= _MOST:
        raise ValueError(f"{value} bytes")
    return value
