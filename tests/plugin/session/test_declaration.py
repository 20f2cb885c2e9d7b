"""What a marker declares over the ini file's defaults."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpuperf_analyzers.limits import LimitError
from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.session.declaration import (
    DEFAULTED,
    Declaration,
    parse_defaults,
    parse_keywords,
    with_call,
)

METRICS = {metric.name: metric for metric in BUILTIN}


def declared(**keywords: object) -> Declaration:
    return parse_keywords(keywords, METRICS, Declaration())


def test_the_defaults_are_those_of_the_documentation() -> None:
    plain = parse_defaults({})
    assert (plain.warmup_s, plain.max_time_s, plain.steps, plain.timeout_s) == (1.0, 2.0, 3, 60.0)
    assert (plain.device, plain.timer, plain.dtype, plain.marked) == (None, None, None, False)


@pytest.mark.parametrize(
    ("keyword", "written", "field", "stored"),
    [
        ("warmup", "500ms", "warmup_s", 0.5),
        ("warmup", "0s", "warmup_s", 0.0),
        ("max_time", "2s", "max_time_s", 2.0),
        ("steps", 10, "steps", 10),
        ("timeout", "1min", "timeout_s", 60.0),
        ("timer", "wall", "timer", "wall"),
        ("dtype", "bfloat16", "dtype", "bf16"),
        ("dtype", "fp16", "dtype", "fp16"),
        ("device", "cuda:1", "device", "cuda:1"),
        ("flops", 2 * 1024**3, "flops", 2.0 * 1024**3),
        ("flops", "3GFLOP", "flops", 3e9),
        ("bytes", 1024, "bytes", 1024.0),
        ("bytes", "1KiB", "bytes", 1024.0),
        ("items", 32, "items", 32.0),
        ("tokens", 4096, "items", 4096.0),
    ],
)
def test_a_keyword_of_the_measurement_is_kept_in_its_unit(
    keyword: str, written: object, field: str, stored: object
) -> None:
    declaration = declared(**{keyword: written})
    assert getattr(declaration, field) == stored
    assert declaration.limits == ()
    assert declaration.marked


def test_tokens_and_items_are_told_apart_by_name_only() -> None:
    assert declared(tokens=8).items_unit == "tokens"
    assert declared(items=8).items_unit == "items"
    with pytest.raises(LimitError, match="give one"):
        declared(items=8, tokens=8)


@pytest.mark.parametrize(
    ("keyword", "written"),
    [
        ("warmup", 1),
        ("warmup", "1GB"),
        ("max_time", -1),
        ("steps", 0),
        ("steps", 2.5),
        ("timeout", "0s"),
        ("timer", "cuda"),
        ("dtype", "complex64"),
        ("device", "tpu"),
        ("device", "cuda:x"),
        ("flops", "3GB"),
        ("flops", 0),
        ("items", 0),
        ("items", "many"),
        ("bytes", "3ms"),
    ],
)
def test_a_keyword_that_cannot_be_understood_is_named(keyword: str, written: object) -> None:
    with pytest.raises(LimitError, match=f"^{keyword}: "):
        declared(**{keyword: written})


def test_limits_and_options_stand_side_by_side() -> None:
    declaration = declared(min_overlap=0.6, steps=12, max_host_syncs=0)
    assert [limit.text for limit in declaration.limits] == ["min_overlap=0.6", "max_host_syncs=0"]
    assert declaration.steps == 12


def test_none_takes_back_a_keyword() -> None:
    declaration = declared(min_overlap=None, steps=None)
    assert declaration.limits == ()
    assert declaration.steps == 3


def test_a_misspelt_option_is_answered_with_its_name() -> None:
    with pytest.raises(LimitError, match="warmup"):
        declared(warmpu="1s")


def test_ini_values_are_the_defaults_of_a_marker() -> None:
    defaults = parse_defaults({"warmup": "10ms", "steps": "7", "timer": "wall", "dtype": ""})
    declaration = parse_keywords({"steps": 2}, METRICS, defaults)
    assert (declaration.warmup_s, declaration.steps, declaration.timer) == (0.01, 2, "wall")


@pytest.mark.parametrize("key", DEFAULTED)
def test_an_ini_value_that_cannot_be_understood_names_its_key(key: str) -> None:
    with pytest.raises(LimitError, match=f"^gpuperf_{key} in the ini file: "):
        parse_defaults({key: "?"})


def test_the_device_of_the_marker_stands_over_the_option_and_that_over_the_ini_file() -> None:
    ini = parse_defaults({"device": "cpu"})
    assert (ini.device, ini.device_asked) == ("cpu", "option")
    option = parse_defaults({"device": "cpu"}, device="cuda:1")
    assert (option.device, option.device_asked) == ("cuda:1", "option")
    marker = parse_keywords({"device": "cuda:0"}, METRICS, option)
    assert (marker.device, marker.device_asked) == ("cuda:0", "marker")


def test_one_call_says_for_itself_what_the_marker_says_for_all() -> None:
    declaration = declared(items=8, steps=5, max_time="1s")
    own = with_call(declaration, {"tokens": 64, "max_time": "200ms", "steps": None})
    assert (own.items, own.items_unit, own.max_time_s, own.steps) == (64.0, "tokens", 0.2, 5)
    assert with_call(declaration, {"items": None, "tokens": None}) == declaration
    with pytest.raises(LimitError, match="give one"):
        with_call(declaration, {"items": 1, "tokens": 1})
    with pytest.raises(LimitError, match=r"^max_time: "):
        with_call(declaration, {"max_time": 1})


class Mute:
    """Has no text, and compares with nothing."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]


_KEYWORDS = (
    "max_step_time", "min_overlap", "max_kernel_launches", "min_tflops", "max_regression",
    "exact", "warmup", "steps", "timeout", "timer", "dtype", "device", "flops", "items",
)  # fmt: skip
_NO_VALUES = {
    "list": [], "bytes": b"3ms", "complex": 1j, "function": len, "mute": Mute(), "nan": math.nan,
    "infinite": math.inf, "negative": -1, "true": True, "array": np.array([1, 2]),
    "no digits": 10**6000, "long": "1" * 5000 + "parsecs", "escape": "3\x1b[31mparsecs",
    "empty": "", "mapping": {}, "of a number": {1: "3ms"}, "of nothing": {"cpu": Mute()},
}  # fmt: skip


@pytest.mark.parametrize("keyword", _KEYWORDS)
@pytest.mark.parametrize("value", list(_NO_VALUES.values()), ids=list(_NO_VALUES))
def test_what_is_no_value_at_all_is_one_short_line(keyword: str, value: object) -> None:
    with pytest.raises(LimitError) as caught:
        parse_keywords({keyword: value}, METRICS, Declaration())
    message = str(caught.value)
    assert message.startswith(keyword)
    assert message.isprintable()
    assert len(message) < 400


def test_numbers_of_numpy_are_numbers() -> None:
    found = parse_keywords(
        {"min_overlap": np.float32(0.5), "steps": np.int64(7)}, METRICS, Declaration()
    )
    assert found.limits[0].default is not None
    assert found.limits[0].default.value == 0.5
    assert found.steps == 7
