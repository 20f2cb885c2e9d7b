"""Exclusive time against a brute-force simulation: one owner a nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuperf_analyzers.diff.exclusive import Layer, first_begun, owned_time

WIDTH = 40
Interval = tuple[int, int, int]
intervals = st.lists(
    st.tuples(st.integers(0, WIDTH), st.integers(0, WIDTH), st.integers(0, 4)), max_size=10
)
bounds = st.lists(st.integers(0, WIDTH), min_size=2, max_size=6, unique=True).map(sorted)


def layer(raw: list[Interval]) -> Layer:
    table = np.array(raw, dtype=np.int64).reshape(-1, 3)
    return first_begun(*table.T)


def owner_at(raw: list[Interval], moment: int) -> int:
    """By definition: of what runs, what began first; then the longer; then the lower owner."""
    running = [(a, -b, owner) for a, b, owner in raw if a <= moment < b]
    return min(running)[2] if running else -1


@given(intervals)
def test_each_moment_of_a_layer_is_owned_by_what_began_first(raw: list[Interval]) -> None:
    found = layer(raw)
    assert np.all(found.start[1:] >= found.end[:-1])
    for moment in range(WIDTH):
        here = [
            o
            for a, b, o in zip(found.start, found.end, found.owner, strict=True)
            if a <= moment < b
        ]
        assert (here or [-1]) == [owner_at(raw, moment)]


@given(intervals, intervals, bounds)
def test_times_are_those_of_a_simulation_moment_by_moment(
    upper: list[Interval], lower: list[Interval], edges: list[int]
) -> None:
    start, end = np.array(edges[:-1]), np.array(edges[1:])
    wanted = np.zeros((5, len(start)), dtype=np.int64)
    for moment in range(WIDTH):
        owner = owner_at(upper, moment)
        owner = owner_at(lower, moment) if owner < 0 else owner
        inside = np.flatnonzero((start <= moment) & (moment < end))
        if owner >= 0 and len(inside):
            wanted[owner, inside[0]] += 1
    assert np.array_equal(owned_time([layer(upper), layer(lower)], start, end, 5), wanted)


@given(intervals, bounds)
def test_with_a_layer_under_everything_the_owners_add_up_to_each_step(
    raw: list[Interval], edges: list[int]
) -> None:
    start, end = np.array(edges[:-1]), np.array(edges[1:])
    ground = layer([(0, WIDTH, 5)])
    times = owned_time([layer(raw), ground], start, end, 6)
    assert np.array_equal(times.sum(axis=0), end - start)


def test_steps_may_have_gaps_between_them_and_no_length() -> None:
    ground = layer([(0, 40, 0)])
    times = owned_time([ground], np.array([0, 20, 20]), np.array([10, 20, 35]), 1)
    assert times.tolist() == [[10, 0, 15]]
