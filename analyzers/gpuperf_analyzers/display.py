"""Numbers and names as a person reads them: one place, so that every output says the same.

Standard library only. Nothing here knows a terminal; text that comes from a trace is made
harmless here before any terminal sees it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence

_SCALES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "us": ((1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")),
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "FLOP": ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP")),
    "J": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")),
    "fraction": ((0.01, "%"),),
    "celsius": ((1.0, "°C"),),
    "count": ((1.0, ""),),
}
"""Per stored unit: factor and symbol of each shown unit, largest first."""

_DIGITS = {"us": 4, "bytes": 4, "FLOP": 4}
"""Significant digits where three are too few to tell two steps apart."""

MOST_DIGITS = 12


def scale(value: float, unit: str) -> tuple[float, str]:
    """Factor and symbol of the shown unit in which `value`, in `unit`, is at least 1."""
    steps = _SCALES.get(unit, ((1.0, unit),))
    if value == 0:
        return next((step for step in steps if step[0] == 1.0), steps[-1])
    return next((step for step in steps if abs(value) >= step[0]), steps[-1])


def number(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits, never in exponent form above 1e-6."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if decimals > MOST_DIGITS:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(decimals, 0)}f}"


def counted(count: int, thing: str, things: str = "") -> str:
    """``1 segment``, ``2,000 segments``; `things` where the plural is not `thing` with an s."""
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"


def show(value: float, unit: str, *, digits: int | None = None) -> str:
    """`value`, stored in `unit`, with the unit that suits its size: ``46.2%``, ``13.01 ms``."""
    factor, symbol = scale(value, unit)
    return _join(_shown(value, unit, factor, digits), symbol)


def show_interval(value: float, interval: Sequence[float], unit: str) -> str:
    """Bounds of `interval` in the unit that suits `value`, without its symbol: ``0.30–0.32``."""
    factor, _ = scale(value, unit)
    digits = _digits(unit)
    low, high = (_shown(bound, unit, factor, digits) for bound in interval)
    while low == high and interval[0] != interval[1] and digits < MOST_DIGITS:
        digits += 1
        low, high = (_shown(bound, unit, factor, digits) for bound in interval)
    return f"{low}–{high}"


def show_apart(value: float, limit: float, unit: str) -> tuple[str, str]:
    """`value` and `limit` with as many digits as it takes that different numbers look different."""
    digits = _digits(unit)
    while digits < MOST_DIGITS:
        left, right = show(value, unit, digits=digits), show(limit, unit, digits=digits)
        if left != right or value == limit:
            break
        digits += 1
    return show(value, unit, digits=digits), _plain_limit(limit, unit, digits)


def _plain_limit(limit: float, unit: str, digits: int) -> str:
    """A limit as someone would write it: ``60%`` rather than ``60.0%``."""
    factor, symbol = scale(limit, unit)
    text = _shown(limit, unit, factor, digits)
    if "." in text and "e" not in text:
        text = text.rstrip("0").rstrip(".")
    return _join(text, symbol)


def _digits(unit: str) -> int:
    return _DIGITS.get(unit, 3)


def _shown(value: float, unit: str, factor: float, digits: int | None) -> str:
    scaled = value / factor
    if unit in {"count", "bytes"} and factor == 1.0 and scaled == int(scaled):
        return f"{int(scaled):,}"
    if unit == "fraction" and digits is None and abs(scaled) >= 99.95:
        return number(scaled, 4)
    return number(scaled, digits or _digits(unit))


def _join(text: str, symbol: str) -> str:
    return f"{text}{symbol}" if symbol in {"", "%", "x"} else f"{text} {symbol}"


def harmless(text: object, width: int = 200) -> str:
    """`text` without control characters and no longer than `width`.

    Escapes, line breaks, direction marks and lone surrogates are written as backslash escapes,
    so that a name from a trace can neither colour a terminal nor break a table or a log.
    """
    raw = str(text)
    cut = raw[: width + 1]
    clean = "".join(c if _is_plain(c) else _escaped(c) for c in cut)
    return clean if len(clean) <= width else clean[: max(width - 1, 0)] + "…"


def _is_plain(character: str) -> bool:
    return (character.isascii() and character.isprintable()) or (
        unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def short_names(names: Sequence[str], width: int) -> list[str]:
    """Kernel and op names cut to `width` for a table, different names staying different.

    The return type, the argument list and namespaces that every PyTorch kernel shares are left
    out; a name that is still too long keeps its beginning, and, where that would make two names
    equal, also the place where they differ.
    """
    full = list(dict.fromkeys(names))
    brief = {name: harmless(_without_boilerplate(name), width) for name in full}
    groups: dict[str, list[str]] = {}
    for name, text in brief.items():
        groups.setdefault(text, []).append(name)
    for text, same in groups.items():
        if len(same) > 1:
            brief.update(_told_apart(same, text, width))
    return [brief[name] for name in names]


_BOILERPLATE = ("at::native::", "(anonymous namespace)::", "<unnamed>::", "at::", "c10::")
_LONGEST_PARSED = 4000


def _without_boilerplate(name: str) -> str:
    if len(name) > _LONGEST_PARSED:
        return name
    text = name.removeprefix("void ")
    if text.endswith(")"):
        text = text[: _opening(text)] or text
    for part in _BOILERPLATE:
        text = text.replace(part, "")
    return text or name


def _opening(text: str) -> int:
    """Index of the parenthesis that the last character closes; the length where none does."""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return len(text)


def _told_apart(names: Sequence[str], text: str, width: int) -> dict[str, str]:
    """Texts that show where `names`, all shortened to `text`, begin to differ."""
    shared = 0
    shortest = min(len(name) for name in names)
    while shared < shortest and len({name[shared] for name in names}) == 1:
        shared += 1
    head = text[: max(width // 2 - 1, 1)]
    room = max(width - len(head) - 1, 1)
    tails = [harmless(name[max(shared - 8, 0) :][: room * 2], room) for name in names]
    apart = [f"{head}…{tail}" for tail in tails]
    if len(set(apart)) < len(apart):
        apart = [f"{t[: max(width - 4, 1)]} #{i}" for i, t in enumerate(apart, 1)]
    return dict(zip(names, apart, strict=True))
