from __future__ import annotations

import pytest

from gpuperf_analyzers.display import (
    counted,
    harmless,
    number,
    short_names,
    show,
    show_apart,
    show_interval,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (13009.0, "us", "13.01 ms"),
        (0.35, "us", "350.0 ns"),
        (2.5e6, "us", "2.500 s"),
        (0, "us", "0 µs"),
        (0.4623719, "fraction", "46.2%"),
        (0.9996, "fraction", "99.96%"),
        (0.00036, "fraction", "0.0360%"),
        (1234567, "count", "1,234,567"),
        (12.5, "count", "12.5"),
        (512, "bytes", "512 B"),
        (3 * 2**30, "bytes", "3.000 GiB"),
        (0.0123, "TFLOPS", "0.0123 TFLOPS"),
        (2.5e12, "FLOP", "2.500 TFLOP"),
        (85, "celsius", "85.0 °C"),
    ],
)
def test_a_value_is_shown_in_the_unit_that_suits_its_size(
    value: float, unit: str, text: str
) -> None:
    assert show(value, unit) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 launches"), (1, "1 launch"), (2, "2 launches"), (1234, "1,234 launches")],
)
def test_one_is_singular(count: int, text: str) -> None:
    assert counted(count, "launch", "launches") == text
    assert counted(count, "step") == text.replace("launches", "steps").replace("launch", "step")


def test_an_interval_is_shown_in_the_unit_of_its_value() -> None:
    assert show_interval(999.0, (990.0, 1010.0), "us") == "990.0–1,010"
    assert show_interval(0.31, (0.301, 0.322), "TFLOPS") == "0.301–0.322"


def test_the_bounds_of_a_narrow_interval_do_not_look_equal() -> None:
    low, high = show_interval(0.5, (0.49999, 0.50001), "TFLOPS").split("–")
    assert float(low) < 0.5 < float(high)


def test_a_value_just_short_of_its_limit_does_not_look_like_it() -> None:
    shown, limit = show_apart(0.59996, 0.6, "fraction")
    assert limit == "60%"
    assert float(shown.rstrip("%")) < 60


def test_a_number_keeps_its_significant_digits_without_an_exponent() -> None:
    assert [number(v) for v in (12345.678, 0.0123, -3.2, 0)] == ["12,346", "0.0123", "-3.20", "0"]


@pytest.mark.parametrize("nasty", ["\x1b[31m", "\r\n", "\u202e", "\ud800", "\x00", "\u2028"])
def test_a_name_cannot_reach_the_terminal_with_control_characters(nasty: str) -> None:
    shown = harmless(f"a{nasty}b")
    assert shown.isprintable()
    assert shown.startswith("a\\")
    shown.encode("utf-8")


def test_a_name_of_a_hundred_thousand_characters_is_cut() -> None:
    assert harmless("x" * 100_000, 40) == "x" * 39 + "…"


def test_names_that_differ_at_the_end_stay_different_when_cut() -> None:
    stem = "void at::native::vectorized_elementwise_kernel<4, at::native::" + "long_" * 20
    names = [f"{stem}sqrt>(int, float)", f"{stem}relu>(int, float)"]
    shown = short_names(names, 40)
    assert len(set(shown)) == 2
    assert all(len(s) <= 40 for s in shown)


def test_a_kernels_return_type_and_arguments_are_left_out() -> None:
    name = "void at::native::reduce_kernel<512, 1>(at::native::ReduceOp<float>)"
    assert short_names([name], 60) == ["reduce_kernel<512, 1>"]


def test_names_equal_up_to_what_is_left_out_stay_different() -> None:
    shown = short_names(["void f<1>(int)", "void f<1>(float)"], 30)
    assert len(set(shown)) == 2


def test_a_name_that_is_all_arguments_is_shown_as_it_is() -> None:
    assert short_names(["(no launch record)"], 30) == ["(no launch record)"]


def test_a_speedup_is_so_many_times() -> None:
    assert show(2.314, "x") == "2.31x"
