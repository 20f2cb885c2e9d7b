"""Traces behind URLs, through fsspec: in memory, and over HTTP from this machine."""

from __future__ import annotations

import gzip
import http.server
import json
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gpuperf_analyzers.trace.model import TraceError
from gpuperf_analyzers.trace.reader import read_trace
from gpuperf_analyzers.trace.sets import find_traces, map_ranks, read_traces
from kineto import KinetoTrace
from rank_work import count

fsspec = pytest.importorskip("fsspec", reason="needs the extra remote")


def _rank(rank: int, folder: Path) -> Path:
    t = KinetoTrace(rank=rank, world_size=3)
    for i in range(2000 * (rank + 1)):
        t.op("aten::add", at=i, dur=1)
    return t.write(folder / f"rank{rank}.json.gz")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    for rank in range(3):
        _rank(rank, folder)
    return folder


@pytest.fixture
def in_memory(local: Path) -> Iterator[str]:
    filesystem = fsspec.filesystem("memory")
    for path in local.iterdir():
        filesystem.pipe(f"/traces/{path.name}", path.read_bytes())
    yield "memory://traces"
    filesystem.rm("/traces", recursive=True)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def served(local: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp", reason="needs the extra remote")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Quiet, directory=str(local))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("where", ["in_memory", "served"])
def test_one_url_gives_what_the_file_gives(
    where: str, local: Path, request: pytest.FixtureRequest
) -> None:
    url = f"{request.getfixturevalue(where)}/rank1.json.gz"
    remote, here = read_trace(url), read_trace(local / "rank1.json.gz")
    assert np.array_equal(remote.events.ts, here.events.ts)
    assert remote.strings == here.strings
    assert remote.path == url
    assert remote.findings == ()


@pytest.mark.parametrize("where", ["in_memory", "served"])
def test_a_folder_behind_a_url_is_a_set(where: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(where) + "/"
    found = read_traces(folder)
    assert [(t.rank, len(t.events)) for t in found.traces] == [(0, 2000), (1, 4000), (2, 6000)]
    assert found.findings == ()
    assert [r.result for r in map_ranks(folder, count).ranks] == [2000, 4000, 6000]


def test_a_glob_behind_a_url(in_memory: str) -> None:
    assert find_traces(f"{in_memory}/rank[02]*.gz") == (
        "memory:///traces/rank0.json.gz",
        "memory:///traces/rank2.json.gz",
    )


@pytest.mark.parametrize("where", ["in_memory", "served"])
def test_a_url_that_is_not_there_is_one_line(where: str, request: pytest.FixtureRequest) -> None:
    url = f"{request.getfixturevalue(where)}/none.json"
    with pytest.raises(TraceError, match=r"none\.json: ") as caught:
        read_trace(url)
    assert "\n" not in str(caught.value)


def test_a_damaged_file_behind_a_url_gives_what_it_holds(served: str, local: Path) -> None:
    whole = (local / "rank2.json.gz").read_bytes()
    (local / "broken.json.gz").write_bytes(whole[: len(whole) // 2])
    trace = read_trace(f"{served}/broken.json.gz")
    assert [f.code for f in trace.findings] == ["truncated"]
    assert 1000 < len(trace.events) < 6000
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    (local / "flipped.json.gz").write_bytes(bytes(flipped))
    again = read_trace(f"{served}/flipped.json.gz")
    assert 1000 < len(again.events) < 6000
    for name in ("broken.json.gz", "flipped.json.gz"):
        (local / name).unlink()


def test_an_unknown_scheme_is_one_line() -> None:
    with pytest.raises(TraceError, match=r"nosuch://a/b\.json"):
        read_trace("nosuch://a/b.json")


def test_without_fsspec_a_url_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(TraceError, match=r"pip install 'pytest-gpuperf\[remote\]'"):
        read_trace("s3://bucket/rank0.json")


def test_a_local_name_with_a_colon_is_no_url(tmp_path: Path) -> None:
    path = tmp_path / "a:b.json"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": []}).encode()))
    assert len(read_trace(path).events) == 0
