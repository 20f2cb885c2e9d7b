from __future__ import annotations

import pytest

from pytest_gpuperf.mamf.ranges import (
    LARGEST,
    PRESETS,
    RangeError,
    make_grid,
    one,
    preset,
    values,
)


def test_a_range_excludes_its_stop_and_skips_zero() -> None:
    """0, 256, …, 5376 excluded, 0 skipped: 5376 / 256 = 21, less the 0."""
    found = values(0, 5376, 256)
    assert (found[0], found[-1], len(found)) == (256, 5120, 20)
    assert len(make_grid(found, found, found)) == 8000
    assert values(256, 20480, 256)[-1] == 20224
    assert values(0, 20480, 256) == values(256, 20480, 256)
    assert values(5, 6, 1) == (5,)


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 0, 1), (5, 5, 1), (6, 5, 1), (-256, 256, 256), (0, 10, 0), (0, 10, -1), (0, 1, 1),
     (1, LARGEST + 2, 1), (0, 256, 256)],
)  # fmt: skip
def test_a_range_without_values_or_beyond_memory_is_refused(
    start: int, stop: int, step: int
) -> None:
    with pytest.raises(RangeError, match=f"--k-range {start} {stop} {step}: "):
        values(start, stop, step, "--k-range")


@pytest.mark.parametrize("side", [0, -1, LARGEST + 1])
def test_a_side_is_a_positive_number_of_elements(side: int) -> None:
    with pytest.raises(RangeError, match="--m "):
        one(side, "--m")
    assert one(1024, "--m") == (1024,)


def test_a_grid_that_no_list_would_hold_is_refused_with_the_mend() -> None:
    axis = values(0, 2001, 1)
    with pytest.raises(RangeError, match=r"8,000,000,000 shapes .* larger STEP"):
        make_grid(axis, axis, axis)


def test_indices_run_over_every_shape_once() -> None:
    grid = make_grid((1, 2), (3, 4, 5), (6, 7))
    shapes = [grid.at(i) for i in range(len(grid))]
    assert len(set(shapes)) == len(shapes) == 12
    assert shapes[:3] == [(1, 3, 6), (1, 3, 7), (1, 4, 6)]
    assert grid.words() == "M 1 to 2 by 1, N 3 to 5 by 1, K 6 to 7 by 1: 12 shapes"


def test_presets_are_the_published_ranges() -> None:
    assert {name: len(grid) for name, grid in PRESETS.items()} == {
        "quick": 79, "a100": 20**3, "mi300x": 20**3, "h100": 79**3,
    }  # fmt: skip
    quick = preset("quick", on_cpu=False)
    assert (quick.n, quick.k, quick.changed) == ((4096,), (4096,), "")


def test_on_a_cpu_quick_is_smaller_and_says_so() -> None:
    quick = preset("quick", on_cpu=True)
    assert max(quick.m) <= 1280
    assert quick.n == quick.k == (512,)
    assert "on a CPU quick is M 64 to 1216" in quick.changed
    assert "on a GPU M 256 to 20224 by 256, N 4096, K 4096" in quick.changed
    assert preset("a100", on_cpu=True) is PRESETS["a100"]
