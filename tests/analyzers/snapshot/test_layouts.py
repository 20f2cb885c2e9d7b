"""Every layout that a version of torch writes is read; what is none is refused in one line."""

from __future__ import annotations

import copy
import gzip
import pickle
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.snapshot import (
    SnapshotError,
    device_memory,
    is_snapshot,
    live_sites,
    past_of,
    read_snapshot,
)
from gpuperf_analyzers.snapshot.reader import RATIO_FROM
from snapshots import ADAM, BASE, MIB, TRAIN, block, event, example, segment, written


@pytest.mark.parametrize("protocol", range(5))
def test_the_layout_of_today(tmp_path: Path, protocol: int) -> None:
    found = read_snapshot(written(tmp_path / "s.pickle", example(), protocol))
    assert found.devices == (0,)
    assert [b.state for b in found.segments[0].blocks] == ["live", "free", "live", "free"]
    assert found.segments[0].blocks[0].requested == 10 * MIB - 100
    assert found.settings["max_split_size"] == -1
    assert found.notes == ()
    assert len(found.histories[0]) == 7


def test_settings_missing(tmp_path: Path) -> None:
    content = example()
    del content["allocator_settings"]
    found = read_snapshot(written(tmp_path / "s.pickle", content))
    assert found.settings == {}
    assert found.notes == ("the allocator's settings are not recorded",)


@pytest.mark.parametrize("traces", [None, [], [[]]])
def test_no_history(tmp_path: Path, traces: object) -> None:
    content = example()
    if traces is None:
        del content["device_traces"]
    else:
        content["device_traces"] = traces
    found = read_snapshot(written(tmp_path / "s.pickle", content))
    assert past_of(found, 0) is None
    assert "no history of events" in found.notes


def test_stacks_absent(tmp_path: Path) -> None:
    content = example()
    for each in content["segments"][0]["blocks"]:
        del each["frames"]
    for each in content["device_traces"][0]:
        del each["frames"]
    found = read_snapshot(written(tmp_path / "s.pickle", content))
    assert any("no stacks" in note for note in found.notes)
    assert [(r.site, r.made_in, r.bytes) for r in live_sites(found)] == [
        ("(no stack)", "no stack", 14 * MIB)
    ]


def test_stacks_in_the_history_of_blocks_as_before_torch_2_1(tmp_path: Path) -> None:
    live = {"size": 4 * MIB, "state": "active_allocated"}
    live["history"] = [  # the latest allocation first
        {"addr": BASE, "real_size": 4 * MIB - 8, "frames": ADAM},
        {"addr": BASE, "real_size": 1 * MIB, "frames": TRAIN},
    ]
    old = {
        "address": BASE, "total_size": 6 * MIB, "stream": 7, "segment_type": "large",
        "allocated_size": 4 * MIB, "active_size": 4 * MIB,
        "blocks": [live, {"size": 2 * MIB, "state": "inactive"}],
    }  # fmt: skip
    found = read_snapshot(written(tmp_path / "s.pickle", {"segments": [old], "device_traces": []}))
    first, second = found.segments[0].blocks
    assert (first.address, second.address) == (BASE, BASE + 4 * MIB)
    assert first.requested == 4 * MIB - 8
    assert live_sites(found)[0].made_in == "optimizer"
    assert device_memory(found, 0).rounding == 8


def test_a_bare_list_of_segments_and_states_of_old(tmp_path: Path) -> None:
    bare = [{"address": BASE, "blocks": [block(MIB, "active_pending_free")]}]
    found = read_snapshot(written(tmp_path / "s.pickle", bare))
    memory = device_memory(found, 0)
    assert (memory.reserved, memory.awaiting, memory.allocated) == (MIB, MIB, 0)
    assert memory.reserved_over_allocated is None


def test_several_devices(tmp_path: Path) -> None:
    content = {
        "segments": [
            segment([block(MIB)], device=0),
            segment([block(3 * MIB), block(MIB, "inactive")], BASE + 2**32, device=2),
        ],
        "device_traces": [[event("alloc", BASE, MIB)], [], [event("alloc", BASE + 2**32, 3 * MIB)]],
    }
    found = read_snapshot(written(tmp_path / "s.pickle", content))
    assert found.devices == (0, 2)
    assert [device_memory(found, d).reserved for d in found.devices] == [MIB, 4 * MIB]
    assert sorted(found.histories) == [0, 2]


def test_unknown_fields_and_actions_are_passed_over(tmp_path: Path) -> None:
    content = example()
    content["segments"][0]["new_field"] = {"deep": [1]}
    content["device_traces"][0].append(event("workspace_snapshot", 0, 0, user_metadata="phase 1"))
    found = read_snapshot(written(tmp_path / "s.pickle", content))
    past = past_of(found, 0)
    assert past is not None
    assert past.events == 8


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """256 MiB of None in 1/1000 of it: a tenth is unpacked, and nothing of that is looked at."""
    packer = zlib.compressobj(9, wbits=31)
    packed = packer.compress(b"\x80\x04")
    packed += b"".join(packer.compress(b"N" * 2**20) for _ in range(256)) + packer.flush()
    path = tmp_path / "s.pickle.gz"
    path.write_bytes(packed)
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotError, match=r"s\.pickle\.gz: .*unpacks to more than 100 times"):
            read_snapshot(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * RATIO_FROM
    finally:
        tracemalloc.stop()


def test_the_most_regular_history_is_no_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that differ in their address alone compress 15 times."""
    monkeypatch.setattr("gpuperf_analyzers.snapshot.reader.RATIO_FROM", 0)
    blocks = [
        {"address": 2**40 + 512 * i, "size": 512, "requested_size": 512, "state": "inactive"}
        for i in range(20_000)
    ]
    whole = {"device": 0, "address": 2**40, "total_size": 512 * 20_000, "stream": 0,
             "allocated_size": 0, "active_size": 0, "segment_type": "small"}  # fmt: skip
    data = pickle.dumps({"segments": [{**whole, "blocks": blocks}], "device_traces": [[]]})
    packed = gzip.compress(data)
    assert 10 * len(packed) < len(data) < 50 * len(packed)
    path = tmp_path / "s.pickle.gz"
    path.write_bytes(packed)
    assert len(read_snapshot(path).segments) == 1


def test_packed_by_gzip(tmp_path: Path) -> None:
    path = tmp_path / "s.pickle.gz"
    path.write_bytes(gzip.compress(pickle.dumps(example())))
    assert is_snapshot(path)
    assert read_snapshot(path).devices == (0,)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SnapshotError, match=r"s\.pickle\.gz: .*truncated"):
        read_snapshot(path)


def test_known_by_content_not_by_name(tmp_path: Path) -> None:
    for protocol in range(5):
        assert is_snapshot(written(tmp_path / "trace.json", example(), protocol))
    for text in (b"", b'{"traceEvents": []}', b"[]", b"\x1f\x8b", b"PK\x03\x04", b"\n{"):
        (tmp_path / "s.pickle").write_bytes(text)
        assert not is_snapshot(tmp_path / "s.pickle")


def _changed(**changes: Any) -> dict[str, Any]:
    content = example()
    content["segments"][0]["blocks"][0].update(changes)
    return content


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no list of segments"),
        ([1], "one of segments is int"),
        ({"segments": {}}, "no list of segments"),
        ({"device_traces": []}, "no list of segments"),
        ({"segments": [], "device_traces": {}}, "device_traces are dict"),
        ({"segments": [], "device_traces": [3]}, "the events of a device are int"),
        ({"segments": [{"blocks": []}]}, "'address' is missing"),
        (_changed(size=-1), "'size' is -1"),
        (_changed(size=2**70), "'size' is 1180591620717411303424"),
        (_changed(size="4"), "'size' is str"),
        (_changed(size=True), "'size' is bool"),
        (_changed(state="on fire"), "state is 'on fire'"),
        (_changed(frames=[7]), "one of frames is int"),
        (_changed(frames=[{"filename": 1}]), "'filename' is int"),
    ],
)
def test_what_is_no_snapshot_is_refused(tmp_path: Path, content: object, why: str) -> None:
    with pytest.raises(SnapshotError) as told:
        read_snapshot(written(tmp_path / "other.pickle", content))
    assert str(told.value).startswith(f"{tmp_path}/other.pickle: not a snapshot")
    assert why in str(told.value)
    assert "\n" not in str(told.value)


def test_lists_named_over_and_over_are_not_walked(tmp_path: Path) -> None:
    # 2000 segments that are one, with 2000 blocks that are one: four million blocks in 40 kB.
    one = segment([block(512)])
    one["blocks"] *= 2000
    with pytest.raises(SnapshotError, match="same lists over and over"):
        read_snapshot(written(tmp_path / "s.pickle", {"segments": [one] * 2000}))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"gone\.pickle: No such file"):
        read_snapshot(tmp_path / "gone.pickle")


def test_reading_leaves_the_content_alone(tmp_path: Path) -> None:
    content = example()
    before = copy.deepcopy(content)
    read_snapshot(written(tmp_path / "s.pickle", content))
    assert content == before
