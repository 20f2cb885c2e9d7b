"""Broken files: what is whole is read, what is not is counted, and the first place is named.

The counts are worked out by hand: the broken files are made here from whole events.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import pytest

from gpuperf_analyzers.trace.bounds import Bounds
from gpuperf_analyzers.trace.model import Trace, TraceError
from gpuperf_analyzers.trace.reader import read_trace


def _event(i: int, name: str | None = None) -> str:
    return json.dumps(
        {"ph": "X", "cat": "cpu_op", "name": name or f"op{i}", "ts": i, "dur": 1, "args": {"a": i}}
    )


def _names(trace: Trace) -> list[str]:
    return [trace.name_of(i) for i in range(len(trace.events))]


def _write(tmp_path: Path, data: str | bytes) -> Path:
    path = tmp_path / "broken.json"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


HEAD = '{"schemaVersion": 1, "traceEvents": [\n'
TAIL = '\n], "traceName": "t"}'


def _all_but(broken: str, *, at: int = 5, count: int = 10) -> str:
    """A document of `count` events of which number `at` is `broken`."""
    events = [broken if i == at else _event(i) for i in range(count)]
    return HEAD + ",\n".join(events) + TAIL


OTHERS = [f"op{i}" for i in range(10) if i != 5]

REPAIRED = {
    "NaN": ('{"ph": "X", "name": "op5", "ts": 5, "dur": 1, "args": {"v": NaN}}', 1, "NaN"),
    "inf": ('{"ph": "X", "name": "op5", "ts": 5, "dur": 1, "args": {"v": inf}}', 1, "inf"),
    "-Infinity": (
        '{"ph": "X", "name": "op5", "ts": 5, "dur": 1, "args": {"v": [-Infinity, nan]}}',
        2,
        "-Infinity",
    ),
    "a bracket too many": (
        '{"ph": "X", "name": "op5", "ts": 5, "dur": 1}}',
        1,
        "a stray bracket",
    ),
    "a trailing comma in arguments": (
        '{"ph": "X", "name": "op5", "ts": 5, "dur": 1, "args": {"v": [1, 2,],}}',
        2,
        "trailing comma",
    ),
}

RENAMED = {
    "a control character": ("a\x01b", "a\x01b", "control"),
    "a raw line break": ("a\nb", "a\nb", "control"),
    "a Windows path": (r"C:\Xyz\kernel.cu", r"C:\Xyz\kernel.cu", "escape"),
    "an escape that is none": (r"a\q", r"a\q", "escape"),
    "half a surrogate pair": (r"a\ud800b", "a\ufffdb", "escape"),
}


@pytest.mark.parametrize("block", [150, 100_000])
@pytest.mark.parametrize("kind", REPAIRED)
def test_what_has_one_reading_is_mended_and_nothing_lost(
    kind: str, block: int, tmp_path: Path
) -> None:
    broken, count, reason = REPAIRED[kind]
    text = _all_but(broken)
    trace = read_trace(_write(tmp_path, text), bounds=Bounds(block=block))
    assert _names(trace) == [f"op{i}" for i in range(10)]
    (finding,) = trace.findings
    assert (finding.code, finding.count) == ("repaired", count)
    assert reason in finding.example
    assert finding.example.startswith("byte ")
    assert trace.metadata["traceName"] == "t"


def test_a_time_beyond_float64_costs_its_event(tmp_path: Path) -> None:
    trace = read_trace(_write(tmp_path, _all_but('{"ph": "X", "name": "a", "ts": 1e999}')))
    assert _names(trace) == OTHERS
    assert {f.code for f in trace.findings} == {"repaired", "bad-time"}


@pytest.mark.parametrize("kind", RENAMED)
def test_a_name_with_an_invalid_string_is_kept(kind: str, tmp_path: Path) -> None:
    written, name, reason = RENAMED[kind]
    text = _all_but('{"ph": "X", "name": "' + written + '", "ts": 5, "dur": 1}')
    trace = read_trace(_write(tmp_path, text))
    assert _names(trace) == [f"op{i}" for i in range(5)] + [name] + [f"op{i}" for i in range(6, 10)]
    (finding,) = trace.findings
    assert (finding.code, finding.count) == ("repaired", 1)
    assert reason in finding.example


def test_the_byte_of_a_repair_is_where_it_is_in_the_text(tmp_path: Path) -> None:
    text = _all_but('{"ph": "X", "ts": 5, "dur": 1, "name": "op5", "args": {"v": NaN}}')
    trace = read_trace(_write(tmp_path, text))
    assert trace.findings[0].example == f"byte {text.index('NaN')}: NaN is not a JSON number"


def test_invalid_utf8_becomes_replacement_characters(tmp_path: Path) -> None:
    text = _all_but(_event(5, "a??b")).encode().replace(b"a??b", b"a\xff\xfeb")
    trace = read_trace(_write(tmp_path, text))
    assert _names(trace)[5] == "a\ufffd\ufffdb"
    (finding,) = trace.findings
    assert (finding.code, finding.count) == ("repaired", 2)
    at = text.index(b"\xff")
    assert finding.example == f"byte {at}: invalid UTF-8"


LOST = {
    "unescaped quotes": '{"ph": "X", "name": "say "hi" now", "ts": 5, "dur": 1}',
    "one unescaped quote": '{"ph": "X", "name": "a"b", "ts": 5, "dur": 1}',
    "a string that does not end": '{"ph": "X", "name": "a, "ts": 5, "dur": 1}',
    "an object that does not end": '{"ph": "X", "name": "a", "ts": 5, "args": {"b": 1',
    "a value missing": '{"ph": "X", "name": "a", "ts": , "dur": 1}',
    "a key without quotes": '{"ph": "X", "name": "a", ts: 5}',
}


@pytest.mark.parametrize("block", [150, 100_000])
@pytest.mark.parametrize("at", [0, 5, 9])
@pytest.mark.parametrize("kind", LOST)
def test_a_broken_event_costs_itself_and_no_other(
    kind: str, at: int, block: int, tmp_path: Path
) -> None:
    text = _all_but(LOST[kind], at=at)
    trace = read_trace(_write(tmp_path, text), bounds=Bounds(block=block))
    assert _names(trace) == [f"op{i}" for i in range(10) if i != at]
    (finding,) = [f for f in trace.findings if f.code == "events-lost"]
    assert finding.count == 1
    assert finding.example.startswith(f"byte {text.index(LOST[kind])}: ")
    assert "overlap" in finding.invalidates
    assert trace.metadata["traceName"] == "t"


def test_a_comma_too_many_or_too_few_between_events_is_mended(tmp_path: Path) -> None:
    for joint in ("", ",,", " \n "):
        text = HEAD + _event(0) + joint + _event(1) + ",\n" + _event(2) + TAIL
        trace = read_trace(_write(tmp_path, text))
        assert _names(trace) == ["op0", "op1", "op2"]
        assert [(f.code, f.count) for f in trace.findings] == [("repaired", 1)]


def test_a_comma_before_the_end_of_the_list_is_mended(tmp_path: Path) -> None:
    text = HEAD + ",\n".join(_event(i) for i in range(3)) + "," + TAIL
    trace = read_trace(_write(tmp_path, text))
    assert _names(trace) == ["op0", "op1", "op2"]
    assert [(f.code, f.count) for f in trace.findings] == [("repaired", 1)]
    assert trace.metadata["traceName"] == "t"


@pytest.mark.parametrize("block", [150, 100_000])
def test_a_file_cut_anywhere_gives_every_whole_event(block: int, tmp_path: Path) -> None:
    text = _all_but(_event(5))
    ends = [text.index(_event(i)) + len(_event(i)) for i in range(10)]
    last = text.index("]", ends[-1]) + 1
    for cut in range(text.index("[") + 1, len(text), 3):
        trace = read_trace(_write(tmp_path, text[:cut]), bounds=Bounds(block=block))
        whole = sum(end <= cut for end in ends)
        assert len(trace.events) == whole, cut
        codes = [f.code for f in trace.findings]
        if cut < last:
            assert codes == ["truncated"], cut
            assert f"{whole} whole events" in trace.findings[0].message
        else:
            assert "truncated" in codes
            assert set(codes) <= {"truncated", "metadata-lost"}


def test_a_gzip_stream_cut_off_gives_every_whole_event(tmp_path: Path) -> None:
    text = HEAD + ",\n".join(_event(i) for i in range(20_000)) + TAIL
    packed = gzip.compress(text.encode())
    for share in (0.2, 0.5, 0.9):
        part = packed[: int(len(packed) * share)]
        readable = zlib.decompressobj(31).decompress(part).decode()
        whole = readable.count("}}")
        trace = read_trace(_write(tmp_path, part))
        assert len(trace.events) == whole
        (finding,) = trace.findings
        assert finding.code == "truncated"
        assert f"cut off at byte {len(part)} of the file" in finding.example


def test_a_gzip_stream_with_a_flipped_byte_gives_what_stands_before(tmp_path: Path) -> None:
    text = HEAD + ",\n".join(_event(i) for i in range(20_000)) + TAIL
    packed = bytearray(gzip.compress(text.encode()))
    packed[len(packed) // 2] ^= 0xFF
    trace = read_trace(_write(tmp_path, bytes(packed)))
    assert trace.findings
    assert 5_000 < len(trace.events) < 20_000
    assert _names(trace)[:5000] == [f"op{i}" for i in range(5000)]


def test_a_second_document_is_not_read_and_said(tmp_path: Path) -> None:
    one = HEAD + _event(0) + TAIL
    trace = read_trace(_write(tmp_path, one + "\n" + one))
    assert len(trace.events) == 1
    (finding,) = trace.findings
    assert finding.code == "trailing-data"
    assert finding.example == f"byte {len(one) + 1}: a second document begins"


def test_a_bare_list_may_go_without_its_bracket(tmp_path: Path) -> None:
    trace = read_trace(_write(tmp_path, "[" + _event(0) + ",\n" + _event(1) + ",\n"))
    assert len(trace.events) == 2
    assert trace.findings == ()


def test_metadata_that_is_no_json_costs_its_own_entry(tmp_path: Path) -> None:
    text = (
        '{"schemaVersion": 1, "bad": not json, "distributedInfo": {"rank": 3, "world_size": 8},'
        ' "traceEvents": [' + _event(0) + '], "worse": [1, 2, "traceName": "t"}'
    )
    trace = read_trace(_write(tmp_path, text))
    assert trace.rank == 3
    assert len(trace.events) == 1
    lost = [f for f in trace.findings if f.code == "metadata-lost"]
    assert lost[0].example == f"byte {text.index(' not json')}: the value of 'bad' is not JSON"


def test_elements_that_are_no_objects_are_counted(tmp_path: Path) -> None:
    text = HEAD + _event(0) + ", 5, null, [1]," + _event(1) + TAIL
    trace = read_trace(_write(tmp_path, text))
    assert _names(trace) == ["op0", "op1"]
    assert [(f.code, f.count) for f in trace.findings] == [("events-lost", 3)]


@pytest.mark.parametrize("kind", [*REPAIRED, *LOST])
def test_without_salvage_the_first_broken_place_is_the_error(kind: str, tmp_path: Path) -> None:
    broken = LOST[kind] if kind in LOST else REPAIRED[kind][0]
    with pytest.raises(TraceError, match=r"broken\.json: byte \d+: ") as caught:
        read_trace(_write(tmp_path, _all_but(broken)), salvage=False)
    assert "\n" not in str(caught.value)


def test_without_salvage_a_whole_file_is_read(tmp_path: Path) -> None:
    assert len(read_trace(_write(tmp_path, _all_but(_event(5))), salvage=False).events) == 10


def test_without_salvage_a_cut_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="the text ends in an event"):
        read_trace(_write(tmp_path, _all_but(_event(5))[:300]), salvage=False)


def test_the_broken_real_traces_give_what_a_count_by_hand_gives(shared_traces: Path) -> None:
    # `grep -c '"ph"'` of the readable text, less the one event that the text ends in.
    cut = read_trace(shared_traces / "derived-broken/truncated_mid_event.json")
    assert sum(cut.phases.values()) == 1624
    packed = read_trace(shared_traces / "derived-broken/truncated_gzip.json.gz")
    assert sum(packed.phases.values()) == 1612
    # Bytes FF FE in three names: six places, no event lost.
    utf8 = read_trace(shared_traces / "derived-broken/invalid_utf8.json")
    assert sum(utf8.phases.values()) == 3290
    assert [(f.code, f.count) for f in utf8.findings] == [("repaired", 6)]
    assert "\ufffd\ufffd" in "".join(utf8.strings)
    # A metadata value written by a user that is no JSON.
    bad = read_trace(shared_traces / "local-torch214-cpu/cpu_bad_metadata_json.json")
    assert sum(bad.phases.values()) == 19
    assert [(f.code, f.count) for f in bad.findings] == [("metadata-lost", 1)]
    assert bad.metadata["baseTimeNanoseconds"] == 1790857026000000000
