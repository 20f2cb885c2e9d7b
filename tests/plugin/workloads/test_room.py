"""What does not fit into memory is refused before any of it is allocated."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpuperf import workloads
from pytest_gpuperf.recording import capacity
from pytest_gpuperf.workloads import UnavailableError, Workload, room

torch = pytest.importorskip("torch")
N = 1 << 16
CPU = torch.device("cpu")

MADE: dict[str, list[Workload]] = {
    "attention": [
        workloads.attention(2, 4, 128, 32, backend=backend, causal=causal)
        for backend, causal in (("auto", False), ("materialized", True), ("math", False))
    ],
    "convolution": [workloads.convolution(4, 16, 32, 32)],
    "copy": [workloads.copy(N, kind=k) for k in ("fill", "read", "copy", "scale", "add", "triad")],
    "depthwise": [workloads.depthwise(4, 32, 32)],
    "elementwise": [workloads.elementwise(N, form=form) for form in ("eager", "builtin")],
    "matmul": [
        *(workloads.matmul(256, 128, 256, dtype=d) for d in ("fp64", "fp32", "bf16", "fp8")),
        workloads.matmul(32, 1024, 256),
        workloads.matmul(1024, 512, 16),
    ],
    "mlp": [workloads.mlp(512, 64, 256), workloads.mlp(8, 128, 512)],
    "pointwise_chain": [workloads.pointwise_chain(N, dtype=d) for d in ("fp64", "fp32", "fp16")],
    "training_step": [
        *(workloads.training_step(p, batch=64, width=64, hidden=256) for p in ("fp32", "fp8")),
        workloads.training_step(batch=512, width=64, hidden=256),
    ],
    "transformer_layer": [
        workloads.transformer_layer(2, 128, 64, 4), workloads.transformer_layer(2, 16, 128, 4)
    ],
}  # fmt: skip
EXACT = {"copy", "elementwise", "pointwise_chain"}
"""Nothing but the arrays of a closed form: no library's scratch memory."""
ELSEWHERE = {
    "batch_sweep": "makes no tensors of its own",
    "host_to_device": "CUDA only",
    "kernel": "only its user knows",
    "matmul_kernel": "CUDA or Triton; the formula of matmul",
    "spin": "has no tensors",
}


def measured_peak(call: Callable[[], object]) -> int:
    """Bytes alive at most during `call`, by torch's own profile of memory."""
    from pytest_gpuperf.recording.memory_tree import walk
    from pytest_gpuperf.recording.memory_trend import memory_profile

    with memory_profile() as profile:
        call()
    level = most = 0
    roots = profile.profiler.kineto_results.experimental_event_tree()
    for event in walk(roots, CPU, ()).events:
        level += event.bytes
        most = max(most, level)
    return most


def test_every_workload_is_told_of_here() -> None:
    functions = {n for n in workloads.__all__ if inspect.isfunction(getattr(workloads, n))}
    assert functions == MADE.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("name", MADE)
def test_a_peak_is_at_most_what_torch_sees_and_not_far_below(name: str) -> None:
    """At most: else what fits would be refused. Below: scratch memory is the library's."""
    for workload in MADE[name]:
        seen = measured_peak(lambda workload=workload: workload.on("cpu").check())
        assert workload.peak_bytes is not None
        assert 0.25 * seen < workload.peak_bytes <= seen, workload.name
        if name in EXACT and workload.dtype != "fp64":
            assert workload.peak_bytes == pytest.approx(seen, rel=0.001), workload.name


def test_a_product_of_four_exbibytes_is_refused_with_shape_and_both_sizes() -> None:
    huge = workloads.matmul(1 << 30, 1 << 30, 4)
    with pytest.raises(UnavailableError) as told:
        huge.check("cpu")
    # The result alone: 2^30 x 2^30 of 4 bytes; the operands are 2 x 2^30 x 4 x 4 bytes more.
    assert huge.peak_bytes == 4 * 2**60 + 2 * 4 * 4 * 2**30
    assert (
        f"matmul-1073741824x1073741824x4-fp32-nn takes at least {huge.peak_bytes:,} bytes"
        in str(told.value)
    )
    assert " bytes (" in str(told.value)
    assert "GiB) are there" in str(told.value)


def test_nothing_is_allocated_by_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = workloads.copy(N)
    monkeypatch.setattr(room, "available_bytes", lambda _: whole.peak_bytes)
    assert whole.check("cpu") is not None  # just fits
    monkeypatch.setattr(room, "available_bytes", lambda _: whole.peak_bytes - 1)

    def refused() -> None:
        with pytest.raises(UnavailableError, match=r"copy-65536-fp32 takes at least 2,883,584 "):
            whole.on("cpu")

    assert measured_peak(refused) == 0


def test_the_fixture_skips_a_shape_beyond_memory(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pytest_gpuperf import workloads

        def test_huge(gpuperf):
            gpuperf(workloads.matmul(1 << 30, 1 << 30, 4))
        """
    )
    result = pytester.runpytest("-rs", "--gpuperf-device=cpu")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*UNMEASURED: gpuperf: matmul-1073741824x1073741824x4-*"])


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, 6000 * 1024),  # no control group: what the kernel says is available
        # 4 MB may be had, 3 are in use, of which 1 is cache that the kernel takes back.
        (
            {
                "memory.max": "4000000\n",
                "memory.current": "3000000\n",
                "memory.stat": "anon 2000000\ninactive_file 1000000\n",
            },
            2_000_000,
        ),
        ({"memory.max": "max\n", "memory.current": "3000000\n"}, 6000 * 1024),
        (
            {
                "memory/memory.limit_in_bytes": "4000000\n",
                "memory/memory.usage_in_bytes": "3500000\n",
                "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 400000\n",
            },
            900_000,
        ),
        ({"memory.max": "1000\n", "memory.current": "3000\n"}, 0),
    ],
    ids=["none", "v2", "v2-unlimited", "v1", "over"],
)
def test_what_is_available_is_the_lesser_of_the_machines_and_the_control_groups(
    files: dict[str, str], left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemFree: 1000 kB\nMemAvailable:    6000 kB\n")
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(capacity, "_MEMINFO", meminfo)
    monkeypatch.setattr(capacity, "_CGROUP", tmp_path)
    assert capacity.available_bytes(CPU) == left


def test_where_nobody_tells_what_is_free_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(capacity, "_CGROUP", tmp_path)
    assert capacity.available_bytes(CPU) is None
    assert workloads.copy(64).check("cpu") is not None
