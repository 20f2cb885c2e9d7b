from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest

from pytest_gpuperf.report.html.embed import packed, script_json


def test_nothing_in_the_data_can_end_the_script_or_begin_a_comment() -> None:
    text = script_json({"a": "</script><!--<script>&\u2028\u202e", "b": [1, None]})
    assert not set("<>&\u2028\u202e") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>&\u2028\u202e", "b": [1, None]}


def unpacked(packed_: Any) -> np.ndarray[Any, Any]:
    """By the layout's description: deflate, transposed bytes, differences."""
    raw = zlib.decompress(base64.b64decode(packed_["z"]), -15)
    kinds = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "f4": "<f4", "f8": "<f8"}
    dtype = np.dtype(kinds[packed_["t"]])
    planes = np.frombuffer(raw, np.uint8).reshape(dtype.itemsize, packed_["n"])
    values = np.ascontiguousarray(planes.T).reshape(-1).view(dtype)
    return np.cumsum(values, dtype=dtype) if packed_["d"] else values


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "f8"])
def test_an_array_comes_back_as_it_was(kind: str) -> None:
    values = np.arange(200) % 251
    assert np.array_equal(unpacked(packed(values, kind)), values)


def test_an_ascending_column_is_stored_as_differences() -> None:
    values = np.cumsum(np.full(10_000, 37)) + 4_000_000_000
    stored = packed(values, "u4", delta=True)
    assert np.array_equal(unpacked(stored), values)
    # One difference, ten thousand times: next to nothing.
    assert len(stored["z"]) < 200


def test_few_numbers_stand_as_numbers() -> None:
    assert packed([1.5, 2.5]) == [1.5, 2.5]


@pytest.mark.parametrize("values", [[-1], [2**32], [300]])
def test_a_value_that_does_not_fit_is_refused(values: list[int]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        packed(values, "u1" if values == [300] else "u4")


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        packed([1.0, float("nan")])
