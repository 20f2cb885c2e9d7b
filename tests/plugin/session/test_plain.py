from __future__ import annotations

import json
import math

import numpy as np
import pytest

from pytest_gpuperf.session.plain import plain


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def item(self) -> int:
        raise KeyError("no item")


class Unreadable(dict):
    def items(self):
        raise RuntimeError("no items")


def test_numbers_texts_and_containers_keep_their_values() -> None:
    assert plain({"a": [1, 2.5, True, None, "x"], 3: (np.int64(4), np.float32(0.5))}) == {
        "a": [1, 2.5, True, None, "x"],
        "3": [4, 0.5],
    }
    assert math.isnan(plain(float("nan")))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Mute(), "a Mute without a text"),
        ({Mute(): 1}, {"a Mute without a text": 1}),
        (Unreadable(a=1), "{'a': 1}"),
        (10**6000, f"an integer of {(10**6000).bit_length()} bits"),
        ("\udc80", "\\udc80"),
        (b"\xff", "b'\\xff'"),
        (1j, "1j"),
    ],
    ids=["mute", "mute key", "unreadable", "huge", "surrogate", "bytes", "complex"],
)
def test_what_has_no_plain_type_is_told_and_never_raises(value: object, expected: object) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False).encode()


def test_what_contains_itself_is_cut() -> None:
    circle: dict[str, object] = {}
    circle["self"] = circle
    assert "…" in json.dumps(plain(circle), ensure_ascii=False)
