"""What a test declares: its marker's keywords, over the command line's and the ini file's.

Parsed at collection, so that a misspelt limit is told before anything runs. Standard library
only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from gpuperf_analyzers.limits import Limit, LimitError, nearest, parse_limits
from gpuperf_analyzers.metrics import Metric
from gpuperf_analyzers.quantities import QuantityError, parse_quantity, parse_seconds, shown

TIMERS = ("wall", "event", "graph", "kernel")
L2 = ("hot", "cold")
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8")
_DTYPE_NAMES = {
    "float64": "fp64", "double": "fp64", "float32": "fp32", "float": "fp32",
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip

DEFAULT_WARMUP_S = 1.0
DEFAULT_MAX_TIME_S = 2.0
DEFAULT_STEPS = 3
DEFAULT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Declaration:
    """How one test is to be measured and what it is held to.

    Attributes
    ----------
    marked
        Whether the test has the marker; without it nothing is judged.
    limits
        The limits, parsed.
    device
        As asked for (``cuda:1``); None takes the first GPU, or the CPU.
    device_asked
        Who asked for it: ``marker``, ``option``, ``""``.
    warmup_s, max_time_s, steps, timer, l2
        As in the recording's options.
    breakdown
        Whether memory is broken down by category even where no limit asks for it.
    timeout_s
        Time limit of the ranks of one ``gpuperf.ddp`` call.
    dtype
        Dtype that declared FLOP are executed in.
    flops, bytes, items, items_unit
        What one step does, as declared.
    dcgm_url
        Address of a dcgm-exporter, for counters that the device does not tell by itself.
    estimate
        Bytes that its peak of memory is estimated at.
    """

    marked: bool = False
    limits: tuple[Limit, ...] = ()
    device: str | None = None
    device_asked: Literal["marker", "option", ""] = ""
    warmup_s: float = DEFAULT_WARMUP_S
    max_time_s: float = DEFAULT_MAX_TIME_S
    steps: int = DEFAULT_STEPS
    timeout_s: float = DEFAULT_TIMEOUT_S
    timer: str | None = None
    l2: str | None = None
    breakdown: bool = False
    dtype: str | None = None
    flops: float | None = None
    bytes: float | None = None
    estimate: float | None = None
    dcgm_url: str | None = None
    items: float | None = None
    items_unit: str = "items"


def _seconds(written: object) -> float:
    return parse_seconds(written)


def _positive_seconds(written: object) -> float:
    seconds = parse_seconds(written)
    if seconds == 0:
        raise QuantityError(f"{shown(written)} is no time at all")
    return seconds


def _steps(written: object) -> int:
    steps = int(parse_quantity(written, "count").value)
    if steps < 1:
        raise QuantityError(f"{shown(written)} is below 1")
    return steps


def _timer(written: object) -> str:
    return _one_of(written, TIMERS)


def _l2(written: object) -> str:
    return _one_of(written, L2)


def _flag(written: object) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    known = words.get(_name(written).strip().lower())
    if known is None:
        raise QuantityError(f"{shown(written)} is neither true nor false")
    return known


def _dtype(written: object) -> str:
    # torch.bfloat16 prints as its own name, and collection must not import torch.
    name = _name(written).removeprefix("torch.")
    return _one_of(_DTYPE_NAMES.get(name, name), DTYPES)


def _http(written: object) -> str:
    address = _name(written).strip()
    scheme, slashes, host = address.partition("://")
    if scheme not in ("http", "https") or not slashes or not host or not address.isprintable():
        raise QuantityError(
            f"{shown(written)} is no address: write it as 'http://localhost:9400/metrics'"
        )
    return address


def _name(written: object) -> str:
    """The text of a name or of what prints as one; an object without any names nothing."""
    try:
        return str(written)
    except Exception:  # noqa: BLE001 - an object of the user's
        return ""


def _one_of(written: object, known: tuple[str, ...]) -> str:
    # Not for anything else: what compares like an array has no answer to `in`.
    if not isinstance(written, str) or written not in known:
        raise QuantityError(f"{shown(written)} is not one of {', '.join(known)}")
    return str(written)


def _device(written: object) -> str:
    # A torch.device prints as its own spelling.
    name = _name(written)
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()):
        raise QuantityError(f"{shown(written)} is not a device: write 'cpu', 'cuda' or 'cuda:1'")
    return name


def _flops(written: object) -> float:
    return _above_zero(written, parse_quantity(written, "FLOP", bare_allowed=True).value)


def _bytes(written: object) -> float:
    return _above_zero(written, parse_quantity(written, "bytes", bare_allowed=True).value)


def _estimate(written: object) -> float:
    # What the estimator returns says its bytes itself; an object of the user's may raise instead.
    try:
        total = getattr(written, "total_bytes", written)
    except Exception:  # noqa: BLE001 - whatever it is, it is no estimate
        total = written
    return _above_zero(written, parse_quantity(total, "bytes", bare_allowed=True).value)


def _items(written: object) -> float:
    return _above_zero(written, parse_quantity(written, "count").value)


def _above_zero(written: object, value: float) -> float:
    if value == 0:
        raise QuantityError(f"{shown(written)} is not above 0")
    return value


_FIELDS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "warmup": ("warmup_s", _seconds),
    "max_time": ("max_time_s", _seconds),
    "steps": ("steps", _steps),
    "timeout": ("timeout_s", _positive_seconds),
    "timer": ("timer", _timer),
    "l2": ("l2", _l2),
    "breakdown": ("breakdown", _flag),
    "dtype": ("dtype", _dtype),
    "device": ("device", _device),
    "dcgm_url": ("dcgm_url", _http),
    "flops": ("flops", _flops),
    "bytes": ("bytes", _bytes),
    "estimate": ("estimate", _estimate),
    "items": ("items", _items),
    "tokens": ("items", _items),
}
"""Keyword of the marker: field of the declaration, and what turns the one into the other."""

DEFAULTED = (
    "warmup", "max_time", "steps", "timeout", "timer", "l2", "dtype", "device", "breakdown",
    "dcgm_url",
)  # fmt: skip
"""Keywords that have a default, which an ini file may change."""


def parse_defaults(written: Mapping[str, object], *, device: str | None = None) -> Declaration:
    """The declaration of a test without a marker, from ini values and ``--gpuperf-device``.

    Raises
    ------
    LimitError
        A value that cannot be understood; the line names the ini key.
    """
    found = {key: value for key, value in written.items() if value not in (None, "")}
    settings = _settings(found, lambda key: f"gpuperf_{key} in the ini file")
    if device is not None:
        settings |= _settings({"device": device}, lambda _: "--gpuperf-device")
    if "device" in settings:
        settings["device_asked"] = "option"
    return Declaration(**settings)


def parse_keywords(
    keywords: Mapping[str, object], metrics: Mapping[str, Metric], defaults: Declaration
) -> Declaration:
    """The declaration of a marked test: `keywords` of its markers, merged, over `defaults`.

    Raises
    ------
    LimitError
        An unknown keyword, metric or unit, with the nearest names.
    """
    # None takes back what a marker further out declares.
    given = {k: v for k, v in keywords.items() if v is not None}
    options = {k: v for k, v in given.items() if k in _FIELDS}
    rest = {k: v for k, v in given.items() if k not in _FIELDS}
    _refuse_items_and_tokens(options)
    settings = _settings(options, lambda key: key)
    if "device" in settings:
        settings["device_asked"] = "marker"
    limits = parse_limits(rest, metrics, others=tuple(_FIELDS))
    kept = {f.name: getattr(defaults, f.name) for f in fields(Declaration)}
    return Declaration(**{**kept, **settings, "marked": True, "limits": limits})


def with_call(declaration: Declaration, written: Mapping[str, object]) -> Declaration:
    """`declaration` with what one call of the fixture says for itself; None says nothing.

    Parameters
    ----------
    declaration
        The test's.
    written
        Keywords of the measurement, as the marker takes them.

    Raises
    ------
    LimitError
        A keyword that cannot be understood.
    """
    given = {key: value for key, value in written.items() if value is not None}
    _refuse_items_and_tokens(given)
    return replace(declaration, **_settings(given, lambda key: key))


def _refuse_items_and_tokens(written: Mapping[str, object]) -> None:
    if "items" in written and "tokens" in written:
        raise LimitError("items and tokens are two names of one thing: give one")


def _settings(written: Mapping[str, object], label: Callable[[str], str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in written.items():
        name, parse = _FIELDS[key]
        try:
            settings[name] = parse(value)
        except QuantityError as error:
            raise LimitError(f"{label(key)}: {error}") from None
        if name == "items":
            settings["items_unit"] = key
    return settings


__all__ = [
    "DEFAULTED",
    "Declaration",
    "LimitError",
    "nearest",
    "parse_defaults",
    "parse_keywords",
    "with_call",
]
