"""Times are exact integer nanoseconds, whatever form the file gives them in."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuperf_analyzers.trace.reader import read_trace
from gpuperf_analyzers.trace.times import EXACT_FLOAT_US, nanoseconds, nanoseconds_from_digits


def _text(ns: int) -> str:
    """`ns` in µs with three decimals, as Kineto writes it."""
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


@given(st.integers(0, int(EXACT_FLOAT_US) * 1000 - 1))
def test_a_relative_time_is_exact_through_its_float(ns: int) -> None:
    got, good = nanoseconds(np.array([float(_text(ns))]))
    assert good.all()
    assert int(got[0]) == ns


@given(st.lists(st.integers(0, 4 * 10**18 - 1), min_size=1))
def test_an_absolute_time_is_exact_through_its_digits(times: list[int]) -> None:
    got, good = nanoseconds_from_digits([_text(ns).encode() for ns in times])
    assert good.all()
    assert got.tolist() == times


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1712195495519689", 1712195495519689000),
        ("1712195495519689.0", 1712195495519689000),
        ("1712195495519689.5", 1712195495519689500),
        ("1712195495519689.047", 1712195495519689047),
        ("1712195495519689.0474", 1712195495519689047),
        ("1.712195495519689047e15", 1712195495519689047),
        ('"1712195495519689.047"', 1712195495519689047),
        ("-3.5", -3500),
        ("0", 0),
    ],
)
def test_every_spelling_of_a_number_is_read_from_its_digits(text: str, ns: int) -> None:
    got, good = nanoseconds_from_digits([text.encode(), b"1.000"])
    assert good.tolist() == [True, True]
    assert got.tolist() == [ns, 1000]


def test_what_is_no_time_is_told() -> None:
    texts = [b"", b"null", b'"x"', b"1e400", b"9e18", b"[1]", b"\xff"]
    _, good = nanoseconds_from_digits(texts)
    assert not good.any()
    _, good = nanoseconds(np.array([np.nan, np.inf, -np.inf, 9e18, 4.0e15, -1.0e15]))
    assert not good.any()


def _read(tmp_path: Path, starts: list[str], **top: object) -> tuple[int, list[int], list[int]]:
    events = ",".join(
        f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {s}, "dur": 1.001}}'
        for s in starts
    )
    head = "".join(f"{json.dumps(k)}: {json.dumps(v)}, " for k, v in top.items())
    path = tmp_path / "t.json"
    path.write_text(f'{{{head}"traceEvents": [{events}]}}')
    trace = read_trace(path)
    return trace.start_ns, trace.events.ts.tolist(), trace.events.dur.tolist()


def test_absolute_whole_microseconds(tmp_path: Path) -> None:
    start, ts, dur = _read(tmp_path, ["1694128201440600", "1694128201440676"])
    assert start == 1694128201440600000
    assert ts == [0, 76000]
    assert dur == [1001, 1001]


def test_absolute_microseconds_with_fractions_keep_every_nanosecond(tmp_path: Path) -> None:
    start, ts, _ = _read(tmp_path, ["1712195495519689.047", "1712195495519695.812"])
    assert start == 1712195495519689047
    assert ts == [0, 6765]


def test_a_whole_number_among_fractions_is_no_trap(tmp_path: Path) -> None:
    # The first block is all whole; the fraction that follows makes the digits matter.
    start, ts, _ = _read(tmp_path, ["1712195495519689", "1712195495519689.001"])
    assert start == 1712195495519689000
    assert ts == [0, 1]


def test_times_relative_to_a_base_of_months_ago(tmp_path: Path) -> None:
    base = 1790857026000000000
    start, ts, _ = _read(
        tmp_path, ["5101400794879.516", "5101400795018.094"], baseTimeNanoseconds=base
    )
    assert start == base + 5101400794879516
    assert ts == [0, 138578]


def test_times_as_strings(tmp_path: Path) -> None:
    start, ts, _ = _read(tmp_path, ['"1000.5"', '"2000"'])
    assert start == 1000500
    assert ts == [0, 999500]


def test_every_time_of_the_trace_with_absolute_fractions_is_exact(shared_traces: Path) -> None:
    import gzip

    path = next((shared_traces / "hta-ns-resolution-trace").iterdir())
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    expected = sorted(int(Decimal(e["ts"]) * 1000) for e in events if e["ph"] == "X")
    trace = read_trace(path)
    assert (trace.events.ts + trace.start_ns).tolist() == expected
    # Through float64 nearly all of them are wrong: what the digits are read for.
    wrong = sum(int(float(t) / 1000 * 1000) != t for t in expected)
    assert wrong > len(expected) // 2
