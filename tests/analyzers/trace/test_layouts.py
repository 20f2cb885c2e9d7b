"""The same events in every layout and packing that occurs give the same columns."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuperf_analyzers.trace.bounds import Bounds
from gpuperf_analyzers.trace.model import Category, Trace, TraceError
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace


def _document() -> dict[str, Any]:
    t = KinetoTrace(rank=1, world_size=4)
    with t.step(7, at=0, dur=500):
        for i in range(40):
            t.op("aten::mm", at=10 * i, dur=5, dims=[[2, 3], [3, 4]], dtypes=["float", "float"])
            t.launch("gemm", at=10 * i + 1, runs=(10 * i + 3, 10 * i + 9))
    return t.to_json()


def _same(a: Trace, b: Trace) -> None:
    for column in ("ts", "dur", "cat", "device", "stream", "correlation", "track"):
        assert np.array_equal(getattr(a.events, column), getattr(b.events, column)), column
    assert [a.strings[i] for i in a.events.name] == [b.strings[i] for i in b.events.name]
    assert a.start_ns == b.start_ns
    assert dict(a.phases) == dict(b.phases)


@pytest.fixture
def plain(tmp_path: Path) -> Trace:
    path = tmp_path / "plain.json"
    path.write_text(json.dumps(_document()))
    trace = read_trace(path)
    # 1 step, 40 ops, 40 calls, 40 kernels.
    assert len(trace.events) == 121
    assert trace.findings == ()
    return trace


def _zipped(data: bytes, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", data)


def _two_members(data: bytes) -> bytes:
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(data[half:])


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip of several members": _two_members,
    "gzip with zero padding": lambda data: gzip.compress(data) + b"\0" * 512,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "UTF-8 with a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "UTF-16 little endian": lambda data: data.decode().encode("utf-16"),
    "UTF-16 big endian": lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"),
    "UTF-16 without a mark": lambda data: data.decode().encode("utf-16-le"),
    "gzip of UTF-16": lambda data: gzip.compress(data.decode().encode("utf-16")),
    "CRLF line ends": lambda data: (
        json.dumps(json.loads(data), indent=1).replace("\n", "\r\n").encode()
    ),
    "compact": lambda data: json.dumps(json.loads(data), separators=(",", ":")).encode(),
    "indented": lambda data: json.dumps(json.loads(data), indent=4).encode(),
    "sorted keys": lambda data: json.dumps(json.loads(data), sort_keys=True).encode(),
    "white space around": lambda data: b"\n\n  " + data + b" \n\n",
}


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
@pytest.mark.parametrize("packing", PACKINGS)
def test_every_packing_is_read_whatever_the_file_is_called(
    packing: str, name: str, plain: Trace, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(PACKINGS[packing](json.dumps(_document()).encode()))
    trace = read_trace(path)
    _same(trace, plain)
    assert trace.findings == ()


def test_a_zip_archive_of_one_trace_is_read(plain: Trace, tmp_path: Path) -> None:
    _zipped(json.dumps(_document()).encode(), tmp_path / "t.zip")
    _same(read_trace(tmp_path / "t.zip"), plain)


def test_a_zstd_file_is_read_or_said_how_to_unpack(plain: Trace, tmp_path: Path) -> None:
    zstd = pytest.importorskip("backports.zstd", reason="needs the extra zstd")
    path = tmp_path / "t.json"
    path.write_bytes(zstd.compress(json.dumps(_document()).encode()))
    _same(read_trace(path), plain)


def _moved(key: str, *, first: bool) -> dict[str, Any]:
    document = _document()
    value = document.pop(key)
    return {key: value, **document} if first else {**document, key: value}


LAYOUTS: dict[str, Callable[[], Any]] = {
    "events first": lambda: _moved("traceEvents", first=True),
    "events last": lambda: _moved("traceEvents", first=False),
    "metadata of hundreds of kilobytes": lambda: {"env": "x" * 700_000, **_document()},
    "metadata that quotes the key": lambda: {"note": '"traceEvents": [', **_document()},
    "metadata that nests the key": lambda: {"old": {"traceEvents": [{"ph": "X"}]}, **_document()},
    "a megabyte after the events": lambda: {**_document(), "z": [{"name": "y" * 99}] * 10_000},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_order_of_the_top_level_is_read(layout: str, plain: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(LAYOUTS[layout]()))
    trace = read_trace(path)
    _same(trace, plain)
    assert trace.findings == ()
    assert trace.rank == 1
    assert trace.world_size == 4
    assert trace.device_properties[0]["name"] == "NVIDIA H100 80GB HBM3"
    assert trace.metadata["schemaVersion"] == 1
    assert "traceEvents" not in trace.metadata


def test_a_bare_list_is_read(plain: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(_document()["traceEvents"]))
    trace = read_trace(path)
    _same(trace, plain)
    assert trace.rank is None
    assert trace.metadata == {}


@pytest.mark.parametrize("block", [64, 100, 1000, 4096, 100_000])
def test_the_size_of_blocks_changes_nothing(block: int, plain: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(_document()))
    trace = read_trace(path, bounds=Bounds(block=block))
    _same(trace, plain)
    assert trace.findings == ()


@pytest.mark.parametrize("block", [80, 500, 100_000])
def test_arguments_that_look_like_a_gap_between_events_are_no_cut(
    block: int, tmp_path: Path
) -> None:
    nested = [{"name": "a", "ph": "X"}, {"name": "b"}, {"ph": "i", "ts": 3}]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"op{i}", "ts": i, "dur": 1, "args": {"n": nested}}
        for i in range(30)
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events, "after": nested}))
    trace = read_trace(path, bounds=Bounds(block=block))
    assert len(trace.events) == 30
    assert dict(trace.phases) == {"X": 30}
    assert trace.findings == ()
    assert trace.metadata["after"] == nested


def test_an_empty_list_of_events_is_a_trace_without_events(tmp_path: Path) -> None:
    for text in ('{"traceEvents": []}', '{"traceEvents": [], "a": 1}', "[]", "[\n]\n"):
        path = tmp_path / "t.json"
        path.write_text(text)
        trace = read_trace(path)
        assert len(trace.events) == 0
        assert trace.findings == ()
        assert trace.start_ns == 0


NOT_TRACES = {
    "empty": (b"", "empty"),
    "white space": (b" \n ", "empty"),
    "an empty gzip file": (gzip.compress(b""), "empty"),
    "an HTML page": (b"<!DOCTYPE html><html></html>", "HTML"),
    "a pickle": (b"\x80\x04\x95\x10\x00", "pickle"),
    "text": (b"hello", "not a Kineto trace"),
    "another JSON document": (b'{"a": 1, "b": 2}', "it has: a, b"),
    "a JSON list of numbers": (b"[1, 2, 3]", "not of events"),
    "a JSON list of objects": (b'[{"a": 1}, {"a": 2}]', "without a phase"),
    "a list under traceEvents that is none": (b'{"traceEvents": {"a": 1}}', "not a list"),
    "a trace cut before the events": (b'{"schemaVersion": 1, "dev', "cut off before the first"),
    "a tar archive": (b"a.json".ljust(257, b"\0") + b"ustar\0", "tar"),
}


@pytest.mark.parametrize("kind", NOT_TRACES)
def test_what_is_no_trace_ends_in_one_line_that_names_the_file(kind: str, tmp_path: Path) -> None:
    data, reason = NOT_TRACES[kind]
    path = tmp_path / "given.json"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=r"given\.json: ") as caught:
        read_trace(path)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_saved_model_is_told_from_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02")
    with pytest.raises(TraceError, match="saved PyTorch model"):
        read_trace(path)


def test_an_archive_of_several_traces_says_how_to_read_them(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rank0.json", "[]")
        archive.writestr("rank1.json", "[]")
    with pytest.raises(TraceError, match="2 files: unpack it and read the folder"):
        read_trace(path)


def test_a_missing_file_and_a_folder_are_one_line_each(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read_trace(tmp_path / "none.json")
    with pytest.raises(TraceError, match="a folder: read_traces"):
        read_trace(tmp_path)


def test_a_decompression_bomb_ends_in_an_error(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"a": "' + b"x" * 8_000_000))
    small = Bounds(ratio_from=1_000_000)
    with pytest.raises(TraceError, match="decompression bomb"):
        read_trace(path, bounds=small)


def test_text_beyond_the_bound_ends_in_an_error(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_bytes(b"[" + b'{"ph": "X", "ts": 1, "dur": 1},' * 100_000)
    with pytest.raises(TraceError, match="more than 1 MiB of text"):
        read_trace(path, bounds=Bounds(inflated=2**20))


def test_metadata_beyond_the_bound_ends_in_an_error(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_bytes(b'{"a": "' + b"x" * 3_000_000 + b'", "traceEvents": []}')
    with pytest.raises(TraceError, match="no traceEvents in the first 1 MiB"):
        read_trace(path, bounds=Bounds(metadata=2**20))


def test_an_event_beyond_the_bound_costs_only_itself(tmp_path: Path) -> None:
    event = '{"ph": "X", "cat": "cpu_op", "name": "%s", "ts": %d, "dur": 1}'
    events = [event % ("a", 1), event % ("x" * 5_000_000, 2), event % ("b", 3)]
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [' + ",".join(events) + '], "after": 1}')
    trace = read_trace(path, bounds=Bounds(block=1000, event=2**20))
    assert [trace.name_of(i) for i in range(len(trace.events))] == ["a", "b"]
    (finding,) = trace.findings
    assert finding.code == "events-lost"
    assert finding.count == 1
    assert "longer than 1 MiB" in finding.example
    assert trace.metadata == {"after": 1}


def test_nesting_without_end_costs_only_its_event(tmp_path: Path) -> None:
    deep = '{"ph": "X", "name": "deep", "args": {"a": ' + "[" * 50_000 + "]" * 50_000 + "}}"
    path = tmp_path / "t.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1},\n'
        + deep
        + ',\n{"ph": "X", "name": "b", "ts": 3, "dur": 1}]}'
    )
    trace = read_trace(path)
    assert [trace.name_of(i) for i in range(len(trace.events))] == ["a", "b"]
    assert [(f.code, f.count) for f in trace.findings] == [("events-lost", 1)]
    assert "nested too deep" in trace.findings[0].example


def test_old_and_capitalized_categories_are_known(tmp_path: Path) -> None:
    kinds = {
        "Kernel": Category.KERNEL,
        "gpu_memcpy": Category.MEMCPY,
        "GPU_MEMSET": Category.MEMSET,
        "Operator": Category.CPU_OP,
        "Runtime": Category.RUNTIME,
        "hip_runtime": Category.RUNTIME,
        "cuda_driver": Category.DRIVER,
        "Trace": Category.SPAN,
        "mtia_ccp_events": Category.MTIA,
        "something new": Category.OTHER,
    }
    events = [{"ph": "X", "cat": c, "name": c, "ts": i, "dur": 1} for i, c in enumerate(kinds)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events))
    assert [Category(c) for c in read_trace(path).events.cat] == list(kinds.values())
