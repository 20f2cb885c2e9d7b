"""The cache of columns: the same trace back, never a wrong one, safe with several writers."""

from __future__ import annotations

import os
import threading
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from gpuperf_analyzers.trace import cache
from gpuperf_analyzers.trace.cache import read_cached
from gpuperf_analyzers.trace.model import Trace
from gpuperf_analyzers.trace.reader import read_trace
from gpuperf_analyzers.trace.sets import read_traces
from kineto import KinetoTrace


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALLEST", 0)
    return tmp_path / "cache" / "traces"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    t = KinetoTrace(rank=2, world_size=4, note={"big": 2**70, "text": "ä\ufffd"})
    for i in range(20):
        t.op("aten::mm", at=i, dur=1, dims=[[2, 3]], dtypes=["float"])
        t.launch("k", at=i, runs=(i, i + 2), grid=[i, 1, 1], block=[128, 1, 1])
    t.launch(
        "nccl", at=30, runs=(31, 40), **{"Collective name": "allreduce", "In msg nelems": 2**40}
    )
    t.event("open", "user_annotation", 3, 4, finished=False)
    t.memory(2, 512, 2**50, address=2**64 - 8)
    t.event("util", None, 7, None, ph="C", used=3.5)
    t.event("thread_name", None, 0, None, ph="M", tid="stream 7", text="")
    t.events[-1]["args"] = {"name": "stream 7"}
    return t.write(tmp_path / "trace.json")


def _assert_same(a: Trace, b: Trace) -> None:
    for group in ("events", "kernel_args", "memory", "counters"):
        mine, theirs = getattr(a, group), getattr(b, group)
        for column in fields(mine):
            x, y = getattr(mine, column.name), getattr(theirs, column.name)
            assert x.dtype == y.dtype, column.name
            assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), column.name
            assert not y.flags.writeable
    for name in (
        "path", "start_ns", "strings", "tracks", "collective_args", "phases", "metadata",
        "process_names", "thread_names", "rank", "world_size", "device_properties", "findings",
    ):  # fmt: skip
        assert getattr(a, name) == getattr(b, name), name


def _only(folder: Path) -> Path:
    (kept,) = folder.glob("*.npz")
    assert list(folder.iterdir()) == [kept]
    return kept


def test_a_second_look_gives_the_same_trace(folder: Path, path: Path) -> None:
    fresh = read_trace(path)
    _assert_same(read_cached(path), fresh)
    kept = _only(folder)
    os.utime(kept, (1, 1))
    _assert_same(read_cached(path), fresh)
    assert kept.stat().st_mtime > 1  # it came from there, and counts as used


def test_the_real_traces_come_back_the_same(folder: Path, shared_traces: Path) -> None:
    for path in (shared_traces / "local-torch214-cpu").rglob("*.pt.trace.json*"):
        fresh = read_trace(path)
        read_cached(path)
        _assert_same(read_cached(path), fresh)


def test_the_key_is_the_content_and_not_the_name(folder: Path, path: Path, tmp_path: Path) -> None:
    read_cached(path)
    copy = tmp_path / "copy.json"
    copy.write_bytes(path.read_bytes())
    assert read_cached(copy).path == str(copy)
    _only(folder)
    copy.write_bytes(path.read_bytes().replace(b"aten::mm", b"aten::my"))
    assert "aten::my" in read_cached(copy).strings
    assert len(list(folder.glob("*.npz"))) == 2


def test_a_newer_reader_does_not_take_what_an_older_one_kept(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_cached(path)
    monkeypatch.setattr(cache, "READER_VERSION", cache.READER_VERSION + 1)
    read_cached(path)
    assert len(list(folder.glob("*.npz"))) == 2


def test_a_damaged_file_in_the_cache_is_made_again(folder: Path, path: Path) -> None:
    fresh = read_trace(path)
    read_cached(path)
    kept = _only(folder)
    whole = kept.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:300] + b"\xff" * 40 + whole[340:]):
        kept.write_bytes(damaged)
        _assert_same(read_cached(path), fresh)
        _assert_same(read_cached(path), fresh)
        assert kept.read_bytes()[:4] == whole[:4]


def test_writers_at_once_leave_one_whole_file(folder: Path, path: Path) -> None:
    fresh = read_trace(path)
    found: list[Trace] = []
    threads = [threading.Thread(target=lambda: found.append(read_cached(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    _only(folder)
    for trace in (*found, read_cached(path)):
        _assert_same(trace, fresh)


def test_a_folder_that_cannot_be_written_is_no_error(path: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert len(read_cached(path, folder=blocked / "cache").events) == 63


def test_small_files_are_not_kept(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "SMALLEST", 10**9)
    read_cached(path)
    assert not folder.exists()


def test_the_oldest_go_when_there_is_too_much(
    folder: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_cached(path)
    first = _only(folder)
    os.utime(first, (1, 1))
    monkeypatch.setattr(cache, "LARGEST_TOTAL", first.stat().st_size + 100)
    other = tmp_path / "other.json"
    other.write_bytes(path.read_bytes().replace(b"aten::mm", b"aten::my"))
    read_cached(other)
    assert not first.exists()
    _only(folder)


def test_a_set_is_read_through_the_cache_when_asked(folder: Path, path: Path) -> None:
    read_traces(path)
    assert not folder.exists()
    read_traces(path, cache=True)
    _only(folder)
