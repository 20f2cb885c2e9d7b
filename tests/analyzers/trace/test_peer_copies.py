"""Copies between GPUs are communication, and copies all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import host, load_config, read_trace, timeline
from gpuperf_analyzers.trace.selection import activity, is_peer_copy
from kineto import KinetoTrace


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("Memcpy PtoP (Device -> Device)", True),
        ("CopyPeerToPeer", True),
        ("Memcpy DtoD (Device -> Device)", False),
        ("Memcpy HtoD (Pinned -> Device)", False),
        ("CopyDeviceToDevice", False),
        ("Memset (Device)", False),
    ],
)
def test_names_of_peer_copies(name: str, peer: bool) -> None:
    assert is_peer_copy(name) is peer


def test_the_time_of_a_peer_copy_is_communication(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("gemm", at=0, runs=(10, 30))
    t.launch(
        "Memcpy PtoP (Device -> Device)", at=1, runs=(20, 50), stream=8, cat="gpu_memcpy",
        call="cudaMemcpyAsync", bytes=3_000_000,
    )  # fmt: skip
    t.launch(
        "Memcpy DtoH (Device -> Pinned)", at=2, runs=(60, 65), stream=9, cat="gpu_memcpy",
        call="cudaMemcpyAsync", bytes=100,
    )  # fmt: skip
    trace = read_trace(t.write(tmp_path / "t.json"))
    window = timeline.analyze(trace, load_config(), 0).window
    assert (window.comm_ns, window.overlapped_comm_ns, window.exposed_comm_ns) == (
        30_000,
        10_000,
        20_000,
    )
    assert (window.memory_ns, window.exposed_memory_ns) == (5_000, 5_000)
    assert window.busy_ns == 45_000
    found = activity(trace, 0, load_config())
    assert len(found.memory_rows) == 2
    assert len(found.comm_rows) == 0
    copies = {c.direction: c for c in host.analyze(trace, load_config(), 0).copies}
    assert copies["PtoP"].bytes == 3_000_000
    assert copies["PtoP"].gb_s == pytest.approx(100.0)  # 3 MB in 30 µs
