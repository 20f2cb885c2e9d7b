"""``rocm-smi --json`` (``--showuse``, ``--showpower``, ``-a``, …): one moment of every card."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gpuperf_analyzers.foreign.model import ForeignError, Reading, Sheet, one_name
from gpuperf_analyzers.foreign.samples import values_of
from gpuperf_analyzers.metrics import Value

KIND = "rocm-smi --json"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_POWER = ("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)")
_TEMPERATURES = ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")
_NAMES = ("Card series", "Card Series", "Card SKU", "Device Name")
_CLOCKS = ("sclk clock speed:", "sclk clock speed")


def read_rocm_smi(path: str, text: str) -> Reading:
    """The cards of one query; the temperature is the junction's where it is told.

    Raises
    ------
    ForeignError
        Not whole, or without a card.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ForeignError(
            f"{path}: the JSON is not whole ({error}): record it again with rocm-smi --json"
        ) from None
    cards = {
        str(key): value
        for key, value in (document.items() if isinstance(document, dict) else ())
        if str(key).startswith("card") and isinstance(value, dict)
    }
    if not cards:
        raise ForeignError(f"{path}: no card in this output of rocm-smi")
    names = {key: _first(card, *_NAMES) or "" for key, card in cards.items()}
    rows = tuple((key, names[key], len(card)) for key, card in cards.items())
    return Reading(
        path, KIND, one_name(list(names.values())), "hip",
        parts={key: _values(card) for key, card in cards.items()},
        sheets=(Sheet("cards", ("card", "name", "fields"), rows),),
    )  # fmt: skip


def _first(card: Mapping[str, Any], *keys: str) -> str | None:
    return next((str(card[key]) for key in keys if card.get(key) not in (None, "", "N/A")), None)


def _number(card: Mapping[str, Any], *keys: str) -> float | None:
    found = _NUMBER.search(_first(card, *keys) or "")
    return float(found[0]) if found else None


def _values(card: Mapping[str, Any]) -> dict[str, Value]:
    said = {
        "gpu_util": (_number(card, "GPU use (%)"), 0.01),
        "sm_clock": (_number(card, *_CLOCKS), 1.0),
        "power": (_number(card, *_POWER), 1.0),
        "temperature": (_number(card, *_TEMPERATURES), 1.0),
        "memory_used": (_number(card, "VRAM Total Used Memory (B)"), 1.0),
    }
    readings = {name: [n * scale] for name, (n, scale) in said.items() if n is not None}
    return values_of(readings, KIND)
