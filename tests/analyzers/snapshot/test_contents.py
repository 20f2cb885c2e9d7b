"""What a snapshot says: sums done by hand on layouts that are drawn here."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.snapshot import (
    Frame,
    Snapshot,
    by_made_in,
    device_memory,
    diff_snapshots,
    fit,
    live_sites,
    past_of,
    read_snapshot,
)
from gpuperf_analyzers.snapshot.sites import made_in, site_of
from snapshots import (
    ADAM,
    BACKWARD,
    BASE,
    MIB,
    SETUP,
    TRAIN,
    block,
    event,
    example,
    frame,
    segment,
    written,
)


def read(tmp_path: Path, content: object, name: str = "s.pickle") -> Snapshot:
    return read_snapshot(written(tmp_path / name, content))


def test_reserved_allocated_and_fragmentation(tmp_path: Path) -> None:
    # One segment in use with 6 MiB free in two pieces, one of 8 MiB that is unused.
    content = example()
    content["segments"].append(segment([block(8 * MIB, "inactive")], BASE + 2**30))
    memory = device_memory(read(tmp_path, content), 0)
    assert memory.reserved == 28 * MIB
    assert memory.allocated == 14 * MIB
    assert memory.requested == 14 * MIB - 100
    assert memory.rounding == 100
    assert memory.unused_segments == 8 * MIB
    assert memory.trapped == 6 * MIB
    assert memory.largest_free == 8 * MIB
    assert memory.reserved_over_allocated == 2.0
    assert memory.fragmentation == 6 / 28
    assert (memory.segments, memory.live_blocks, memory.free_blocks) == (2, 2, 3)


def test_live_blocks_by_place(tmp_path: Path) -> None:
    found = read(tmp_path, example())
    sites = live_sites(found)
    assert [(r.site, r.made_in, r.bytes, r.blocks) for r in sites] == [
        ("net/model.py:41 forward", "forward", 10 * MIB, 1),
        ("net/train.py:77 step", "optimizer", 4 * MIB, 1),
    ]
    assert by_made_in(sites) == {"forward": 10 * MIB, "optimizer": 4 * MIB}


@pytest.mark.parametrize(
    ("frames", "site", "part"),
    [
        (TRAIN, "net/model.py:41 forward", "forward"),
        (ADAM, "net/train.py:77 step", "optimizer"),
        (BACKWARD, "net/train.py:76 step", "backward"),
        (SETUP, "net/model.py:12 __init__", "model set-up"),
        # A checkpoint's forward pass within a backward pass is a forward pass.
        (TRAIN[:3] + BACKWARD, "net/train.py:76 step", "forward"),
        ([frame("/w/data.py", 3, "batch")], "w/data.py:3 batch", "elsewhere"),
        ([frame("", 0, "malloc")], "malloc", "elsewhere"),
        ([frame("/venv/torch/functional.py", 5, "einsum")], "torch/functional.py:5 einsum",
         "elsewhere"),
        ([], "(no stack)", "no stack"),
    ],
)  # fmt: skip
def test_place_and_part_of_a_stack(frames: list[dict[str, object]], site: str, part: str) -> None:
    stack = tuple(Frame(f["filename"], f["line"], f["name"]) for f in frames)
    assert site_of(stack) == site
    assert made_in(stack) == part


def test_the_history_is_counted_back_from_the_end(tmp_path: Path) -> None:
    # 10 alive + 4 + 4 = 18 MiB before the 4 of the backward pass are freed: 14 at the end.
    past = past_of(read(tmp_path, example()), 0)
    assert past is not None
    assert [level // MIB for level in past.level_bytes] == [0, 10, 14, 18, 18, 14, 14]
    assert (past.peak_bytes, past.peak_event) == (18 * MIB, 3)
    assert [(r.site, r.bytes) for r in past.at_peak] == [
        ("net/model.py:41 forward", 10 * MIB),
        ("net/train.py:76 step", 4 * MIB),
        ("net/train.py:77 step", 4 * MIB),
    ]
    assert (past.allocations, past.allocated_bytes) == (3, 18 * MIB)
    assert (past.segments_made, past.segments_freed, past.span_us) == (1, 0, 500)
    assert [(f.bytes, f.device_free, f.site) for f in past.failures] == [
        (6 * MIB, MIB, "net/model.py:41 forward")
    ]


def test_a_history_without_its_beginning(tmp_path: Path) -> None:
    # What was allocated before the first event is a row of its own; the rows sum to the peak.
    content = example()
    content["device_traces"][0] = content["device_traces"][0][2:]
    past = past_of(read(tmp_path, content), 0)
    assert past is not None
    assert past.peak_bytes == 18 * MIB
    assert past.at_peak[0].site == "(allocated before the history begins)"
    assert past.at_peak[0].bytes == 10 * MIB
    assert sum(r.bytes for r in past.at_peak) == past.peak_bytes


def test_a_peak_before_the_first_event(tmp_path: Path) -> None:
    content = {
        "segments": [segment([block(MIB), block(MIB, "inactive")])],
        "device_traces": [[event("free_completed", BASE + MIB, MIB)]],
    }
    past = past_of(read(tmp_path, content), 0)
    assert past is not None
    assert (past.peak_bytes, past.peak_event) == (2 * MIB, -1)


def test_what_would_have_had_to_go(tmp_path: Path) -> None:
    # 10 live | 4 free | 4 live | 2 free: 6 MiB fit once the 4 in the middle go, 10 at least of all.
    found = fit(read(tmp_path, example()), 0, 6 * MIB, MIB)
    assert found.fits_in is None
    assert found.after_emptying is False
    assert found.evicted_bytes == 4 * MIB
    assert [(e.bytes, e.site) for e in found.evicted] == [(4 * MIB, "net/train.py:77 step")]
    # Or the whole segment: 20 MiB given back and 1 free hold 6.
    assert found.by_segments_bytes == 14 * MIB


def test_a_block_that_holds_it(tmp_path: Path) -> None:
    found = fit(read(tmp_path, example()), 0, 3 * MIB + 1)
    assert found.rounded == 3 * MIB + 512
    assert found.fits_in == 4 * MIB


def test_unused_segments_that_hold_it(tmp_path: Path) -> None:
    content = example()
    content["segments"].append(segment([block(8 * MIB, "inactive")], BASE + 2**30))
    found = fit(read(tmp_path, content), 0, 10 * MIB, 3 * MIB)
    assert found.after_emptying is True
    # Side by side: the free 4, the live 4 and the free 2 are 10.
    assert found.evicted_bytes == 4 * MIB


def test_more_than_any_segment(tmp_path: Path) -> None:
    found = fit(read(tmp_path, example()), 0, 30 * MIB)
    assert found.evicted_bytes is None
    assert found.evicted == ()
    assert found.after_emptying is None


def test_small_and_large_and_graphs_do_not_serve_each_other(tmp_path: Path) -> None:
    content = {
        "segments": [
            segment([block(2 * MIB, "inactive")], segment_type="small"),
            segment([block(20 * MIB, "inactive")], BASE + 2**30, segment_pool_id=(0, 1)),
        ]
    }
    found = read(tmp_path, content)
    assert fit(found, 0, 2 * MIB).fits_in is None
    assert fit(found, 0, MIB).fits_in == 2 * MIB


def test_what_lies_across_a_gap_is_not_side_by_side(tmp_path: Path) -> None:
    made = segment([block(4 * MIB, "inactive"), block(4 * MIB, "inactive")], is_expandable=True)
    made["blocks"][1]["address"] += MIB
    assert fit(read(tmp_path, {"segments": [made]}), 0, 6 * MIB).evicted_bytes is None


def test_what_grew(tmp_path: Path) -> None:
    content = example()
    blocks = content["segments"][0]["blocks"]
    blocks[3].update(state="active_allocated", frames=BACKWARD)  # 2 MiB more
    blocks[2].update(state="inactive")  # Adam's 4 gone
    found = diff_snapshots(read(tmp_path, example()), read(tmp_path, content, "t.pickle"))
    assert [
        (c.site, c.made_in, c.delta, c.blocks_before, c.blocks_after) for c in found.changes
    ] == [
        ("net/train.py:77 step", "optimizer", -4 * MIB, 1, 0),
        ("net/train.py:76 step", "backward", 2 * MIB, 0, 1),
    ]
    assert found.delta == -2 * MIB == sum(c.delta for c in found.changes)
    assert found.by_made_in() == {"optimizer": -4 * MIB, "backward": 2 * MIB}
