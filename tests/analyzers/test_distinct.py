"""Distinct numbers and tuples against numpy's own, which sorts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpuperf_analyzers.distinct import distinct, distinct_tuples

INT64 = st.integers(-(2**61), 2**61)
COLUMNS = st.integers(1, 40).flatmap(
    lambda n: st.lists(
        arrays(np.int64, n, elements=st.one_of(st.integers(-3, 5), INT64)), min_size=1, max_size=4
    )
)


@given(arrays(np.int64, st.integers(0, 50), elements=st.one_of(st.integers(-3, 9), INT64)))
def test_one_column_is_what_a_sort_finds(values):
    expected, places = np.unique(values, return_inverse=True)
    found, where = distinct(values)
    assert found.tolist() == expected.tolist()
    assert where.tolist() == places.reshape(-1).tolist()


@given(COLUMNS)
def test_tuples_are_what_a_sort_of_rows_finds(columns):
    expected, places = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    found, where = distinct_tuples(*columns)
    assert np.stack(found, axis=1).tolist() == expected.tolist()
    assert where.tolist() == places.reshape(-1).tolist()


def test_narrow_types_do_not_overflow():
    """127 - (-128) is 255, which int8 does not hold."""
    values = np.array([127, -128, 127], dtype=np.int8)
    found, where = distinct(values)
    assert found.tolist() == [-128, 127]
    assert where.tolist() == [1, 0, 1]


def test_no_rows_have_no_tuples():
    found, where = distinct_tuples(np.empty(0, np.int64), np.empty(0, np.int32))
    assert [len(c) for c in found] == [0, 0]
    assert len(where) == 0
