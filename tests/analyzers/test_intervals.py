"""Interval algebra against a brute-force bitmap: one bit a nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuperf_analyzers import intervals

WIDTH = 64
pairs = st.lists(
    st.tuples(st.integers(0, WIDTH), st.integers(0, WIDTH)).map(lambda p: (min(p), max(p))),
    max_size=12,
)


def arrays(raw: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(raw, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def made(raw: list[tuple[int, int]]) -> np.ndarray:
    return intervals.union(*arrays(raw))


def bits(raw: list[tuple[int, int]] | np.ndarray) -> set[int]:
    return {t for a, b in raw for t in range(a, b)}


def canonical(spans: np.ndarray) -> bool:
    flat = spans.ravel()
    return spans.dtype == np.int64 and bool(np.all(flat[1:] > flat[:-1]))


@given(pairs)
def test_a_union_covers_exactly_the_bits_of_its_intervals(raw: list[tuple[int, int]]) -> None:
    got = made(raw)
    assert canonical(got)
    assert bits(got) == bits(raw)
    assert intervals.measure(got) == len(bits(raw))


@given(pairs, pairs)
def test_set_operations_agree_with_sets_of_bits(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    both, only = intervals.intersection(made(a), made(b)), intervals.difference(made(a), made(b))
    either = intervals.join(made(a), made(b))
    assert canonical(both)
    assert canonical(only)
    assert canonical(either)
    assert bits(both) == bits(a) & bits(b)
    assert bits(only) == bits(a) - bits(b)
    assert bits(either) == bits(a) | bits(b)


@given(pairs, pairs)
def test_exposed_and_overlapped_parts_sum_to_the_whole(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    whole, other = made(a), made(b)
    parts = intervals.intersection(whole, other), intervals.difference(whole, other)
    assert sum(map(intervals.measure, parts)) == intervals.measure(whole)


@given(pairs, st.integers(0, WIDTH), st.integers(0, WIDTH))
def test_clipping_keeps_the_bits_between_the_bounds(
    raw: list[tuple[int, int]], lo: int, hi: int
) -> None:
    kept = {t for t in bits(raw) if lo <= t < hi}
    assert bits(intervals.clip(made(raw), lo, hi)) == kept
    inside = intervals.covered(made(raw), np.array([lo]), np.array([hi]))
    assert inside.tolist() == [len(kept)]


@given(pairs, st.lists(st.integers(-3, WIDTH + 3), max_size=10))
def test_points_are_counted_and_found_like_bits(raw: list[tuple[int, int]], at: list[int]) -> None:
    spans, when = made(raw), np.array(at, dtype=np.int64)
    covered = intervals.covered_before(spans, when).tolist()
    assert covered == [sum(t < a for t in bits(raw)) for a in at]
    assert intervals.contains(spans, when).tolist() == [a in bits(raw) for a in at]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 3)), max_size=14))
def test_the_union_of_each_group_is_the_union_of_its_own_intervals(
    raw: list[tuple[int, int, int]],
) -> None:
    start, dur, group = (np.array([r[k] for r in raw], dtype=np.int64) for k in range(3))
    got = intervals.union_measure_by_group(start, start + dur, group, 4).tolist()
    want = [len(bits([(s, s + d) for s, d, g in raw if g == k])) for k in range(4)]
    assert got == want


@given(pairs, st.permutations(range(12)))
def test_the_order_of_events_does_not_matter(raw: list[tuple[int, int]], order: list[int]) -> None:
    shuffled = [raw[i] for i in order if i < len(raw)]
    assert made(shuffled).tolist() == made(raw).tolist()


@given(pairs, pairs, st.integers(0, 2**62))
def test_shifting_time_shifts_every_result(
    a: list[tuple[int, int]], b: list[tuple[int, int]], by: int
) -> None:
    moved_a, moved_b = made(a) + by, made(b) + by
    assert (intervals.difference(moved_a, moved_b) - by).tolist() == intervals.difference(
        made(a), made(b)
    ).tolist()


def test_touching_intervals_become_one_and_empty_or_reversed_ones_are_nothing() -> None:
    got = intervals.union(np.array([0, 5, 9, 20]), np.array([5, 8, 9, 10]))
    assert got.tolist() == [[0, 8]]
    assert intervals.span(3, 3).tolist() == intervals.span(4, 3).tolist() == []


@pytest.mark.parametrize("operation", [intervals.intersection, intervals.difference])
def test_nothing_combined_with_anything_has_the_right_shape(operation) -> None:
    some, none = intervals.span(1, 4), intervals.empty()
    assert operation(none, some).shape == (0, 2)
    assert operation(none, none).shape == (0, 2)


def test_group_unions_do_not_overflow_on_times_near_the_largest_integer() -> None:
    far = 2**62
    start, group = np.array([far, far, 0]), np.array([0, 1, 1])
    got = intervals.union_measure_by_group(start, start + 5, group, 2)
    assert got.tolist() == [5, 10]
