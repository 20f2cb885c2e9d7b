"""Pickles are read as data: plain ones as the standard library does, others not at all."""

from __future__ import annotations

import os
import pickle
import struct
import sys
from datetime import date

import pytest

from gpuperf_analyzers.snapshot.plain_pickle import Limits, PlainPickleError, read_plain_pickle

PLAIN = {
    "a": [1, -1, 255, 256, 65535, 65536, 2**31, -(2**31), 2**47, 2**63 - 1, 0],
    "floats": [1.5, -0.0, 1e300],
    "text": ["", "é", "x" * 300, "line\nbreak", "\N{SNOWMAN}" * 100],
    "bytes": b"\x00\xff",
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "flags": [True, False, None],
    "nested": {"b": {"c": [[], {}, [{}]]}},
}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_the_standard_library_writes_is_read_as_it_reads_it(protocol: int) -> None:
    # bytes of protocol 2 are a call of codecs.encode, which is not run.
    plain = {k: v for k, v in PLAIN.items() if protocol > 2 or k != "bytes"}
    data = pickle.dumps(plain, protocol)
    assert read_plain_pickle(data) == plain


@pytest.mark.parametrize("protocol", [0, 1])
def test_old_text_protocols_are_read(protocol: int) -> None:
    plain = {k: v for k, v in PLAIN.items() if k != "bytes"}
    assert read_plain_pickle(pickle.dumps(plain, protocol)) == plain


def test_shared_values_stay_shared() -> None:
    shared = [1]
    found = read_plain_pickle(pickle.dumps({"a": shared, "b": shared}))
    assert found["a"] is found["b"]


def test_a_long_run_of_references_is_read() -> None:
    many = [f"text {i}" for i in range(3000)]
    assert read_plain_pickle(pickle.dumps([many, many[::-1], many * 2])) == [
        many, many[::-1], many * 2,
    ]  # fmt: skip


class Evil:
    """Runs a command when a trusting unpickler reads it."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> object:
        return (os.system, (f"touch {self.mark}",))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_a_command_is_refused_and_runs_nothing(
    tmp_path: object, protocol: int
) -> None:
    mark = f"{tmp_path}/ran"
    with pytest.raises(PlainPickleError, match=r"GLOBAL at byte \d+ names a class or function"):
        read_plain_pickle(pickle.dumps({"segments": [Evil(mark)]}, protocol))
    assert not os.path.exists(mark)  # noqa: PTH110 - the plainest question


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("GLOBAL", b"cos\nsystem\n(S'true'\ntR."),
        ("STACK_GLOBAL", b"\x80\x04\x8c\x02os\x8c\x06system\x93."),
        ("INST", b"(S'true'\nios\nsystem\n."),
        ("OBJ", b"(No."),
        ("NEWOBJ", b"\x80\x02N)\x81."),
        ("NEWOBJ_EX", b"\x80\x04N)}\x92."),
        ("REDUCE", b"N)R."),
        ("BUILD", b"}}b."),
        ("EXT1", b"\x80\x02\x82\x01."),
        ("EXT2", b"\x80\x02\x83\x01\x00."),
        ("EXT4", b"\x80\x02\x84\x01\x00\x00\x00."),
        ("PERSID", b"Pthing\n."),
        ("BINPERSID", b"\x80\x02NQ."),
        ("NEXT_BUFFER", b"\x80\x05\x97."),
        ("READONLY_BUFFER", b"\x80\x05N\x98."),
        ("EMPTY_SET", b"\x80\x04\x8f."),
        ("ADDITEMS", b"\x80\x04](K\x01\x90."),
        ("FROZENSET", b"\x80\x04(K\x01\x91."),
        ("BYTEARRAY8", b"\x80\x05\x96" + b"\xff" * 8 + b"."),
    ],
)
def test_every_instruction_that_does_more_than_hold_data_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(PlainPickleError, match=rf"instruction {name} at byte"):
        read_plain_pickle(data)


def test_a_date_is_refused() -> None:
    with pytest.raises(PlainPickleError, match="refused"):
        read_plain_pickle(pickle.dumps(date(2020, 1, 1)))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62),  # BINBYTES8
        b"\x80\x04\x8d" + struct.pack("<Q", 2**63 + 5) + b"x",  # BINUNICODE8
        b"\x80\x03B\xff\xff\xff\xffx",  # BINBYTES
        b"X\xff\xff\xff\x7fx",  # BINUNICODE
        b"T\xff\xff\xff\xffx",  # BINSTRING
        b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",  # FRAME
        b"\x8c\x05abc",  # SHORT_BINUNICODE
        b"\x80\x04j\x01\x00",  # LONG_BINGET
        b"J\x01\x02",
        b"G\x00",
    ],
)
def test_a_length_beyond_the_data_is_told_before_anything_is_made(data: bytes) -> None:
    with pytest.raises(PlainPickleError, match="truncated"):
        read_plain_pickle(data)


@pytest.mark.parametrize("data", [b"\x8b\xff\xff\xff\x7f" + b"\x01" * 100, b"\x8a\x40" + bytes(64)])
def test_integers_of_many_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PlainPickleError, match=r"an integer of [\d,]+ bytes"):
        read_plain_pickle(data)


def test_a_memo_index_costs_one_entry_whatever_it_is() -> None:
    assert read_plain_pickle(b"]r\xff\xff\xff\xffj\xff\xff\xff\xff\x86.") == ([], [])


def test_every_cut_of_a_pickle_is_told() -> None:
    for protocol in (0, 2, 4):
        data = pickle.dumps({"a": [1, 2.5, "text", (None, True)], "b": {"c": 2**40}}, protocol)
        for end in range(len(data)):
            with pytest.raises(PlainPickleError, match=r"truncated|damaged"):
                read_plain_pickle(data[:end])


@pytest.mark.parametrize("nesting", [b"(" * 100_000, b"]" * 100 + b"a" * 99 + b".",
                                     b")" + b"\x85" * 90_000 + b"."])  # fmt: skip
def test_deep_nesting_is_refused(nesting: bytes) -> None:
    with pytest.raises(PlainPickleError, match="deep within each other"):
        read_plain_pickle(nesting)


def test_only_text_is_a_key() -> None:
    # A tuple 90,000 deep as a key would end the interpreter when it is hashed.
    with pytest.raises(PlainPickleError, match="a key is tuple"):
        read_plain_pickle(b"})" + b"\x85" * 90_000 + b"Ns.")
    with pytest.raises(PlainPickleError, match="a key is int"):
        read_plain_pickle(b"}K\x01Ns.")


def test_a_list_that_holds_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    found = read_plain_pickle(pickle.dumps(loop))
    assert found[0] is found


def test_more_values_or_containers_than_allowed_are_refused() -> None:
    with pytest.raises(PlainPickleError, match="more than 50 values"):
        read_plain_pickle(pickle.dumps(list(range(100))), Limits(values=50))
    with pytest.raises(PlainPickleError, match="more than 10 containers"):
        read_plain_pickle(pickle.dumps([[i] for i in range(20)]), Limits(containers=10))


def test_memory_that_a_byte_asks_for_is_bounded_by_the_size() -> None:
    """Of n bytes 100,000 + n / 8 containers and memo entries; a million values wait at most."""
    size = 2 + 300 * 1002 + 2
    most = rf"more than {100_000 + size // 8:,} containers"
    with pytest.raises(PlainPickleError, match=most):
        read_plain_pickle(b"](" + (b"]" * 1000 + b"e(") * 300 + b"e.")
    with pytest.raises(PlainPickleError, match=r"keeps more than 137,500 values for later"):
        read_plain_pickle(b"]" + b"\x94" * 299_998 + b".")
    with pytest.raises(PlainPickleError, match="more than 1,000,000 values of it are in no"):
        read_plain_pickle(b"N" * 1_100_000 + b".")
    with pytest.raises(PlainPickleError, match="more than 1,000,000 values of it are in no"):
        read_plain_pickle(b"]" + b"(" + b"N" * 600_000 + b"(" + b"N" * 600_000 + b"ee.")


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_smallest_blocks_are_far_from_the_bound(protocol: int) -> None:
    """A dict of two keys, the fewest of any layout, takes 13 bytes or more: 8 are asked for."""
    blocks = [{"size": 512 + i % 7, "state": "inactive"} for i in range(120_000)]
    found = read_plain_pickle(pickle.dumps({"blocks": blocks}, protocol))
    assert found == {"blocks": blocks}


def test_a_laugh_of_references_stays_as_small_as_its_text() -> None:
    # Ten lists of ten references to the one before: 10^30 entries if walked, 31 containers as read.
    bomb: object = []
    for _ in range(30):
        bomb = [bomb] * 10
    assert sys.getsizeof(read_plain_pickle(pickle.dumps(bomb))) < 1000


DAMAGED = [
    b"", b".", b"a.", b"N", b"h\x05.", b"(N", b"\x80\x09N.", b"{}", b"e.", b"Iabc\n.", b"S'a\n.",
    b"t.", b"K\x01K\x02a.",
]  # fmt: skip


@pytest.mark.parametrize("data", DAMAGED)
def test_damaged_text_is_told_in_one_line(data: bytes) -> None:
    with pytest.raises(PlainPickleError) as told:
        read_plain_pickle(data)
    assert "\n" not in str(told.value)
