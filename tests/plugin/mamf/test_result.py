from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from gpuperf_analyzers.hardware import builtin_peaks
from gpuperf_analyzers.hookspecs import Peak
from pytest_gpuperf.mamf.ranges import make_grid
from pytest_gpuperf.mamf.result import Efficiency, Outcome, efficiency, rates, to_json, to_text
from pytest_gpuperf.mamf.search import Effort, Search, Tried
from pytest_gpuperf.mamf.store import keep
from pytest_gpuperf.recording.mamf_cache import CachedMamf, mamf_path, read_cached

FOUND = CachedMamf("bf16", "Acme X1 | torch 9", 100.0, (256, 512, 1024), 8000, 160, "a grid")


def test_a_4090_at_300_4_of_330_fp8_tflops_reads_91_percent() -> None:
    """300.4 / 330 = 0.9103. The table's figure is 330.3, so with it 0.9095."""
    device = "NVIDIA GeForce RTX 4090"
    rounded = Peak(names=(device,), tflops={"fp8:fp32": 330.0}, source="rounded")
    assert efficiency(300.4, "fp8", device, (rounded,)).share == pytest.approx(0.910, abs=5e-4)
    table = efficiency(300.4, "fp8", device, builtin_peaks(), sms=128)
    assert table.peak_tflops == 330.3
    assert table.share == pytest.approx(0.9095, abs=5e-5)


def test_products_are_held_to_the_peak_of_their_accumulator() -> None:
    """A 4090's fp16 is 165.2 with the fp32 accumulator that torch uses, not 330.3."""
    found = efficiency(150.0, "fp16", "NVIDIA GeForce RTX 4090", builtin_peaks(), sms=128)
    assert found.peak_tflops == 165.2


@pytest.mark.parametrize(
    ("device", "dtype", "sms", "told"),
    [("Acme X1", "bf16", None, "no dense peak of 'Acme X1' is known: declare one"),
     ("NVIDIA A100-SXM4-80GB", "fp8", None, "no dense fp8 peak"),
     ("NVIDIA A100-SXM4-80GB", "bf16", 42, "no dense peak"),
     ("cpu", "fp32", None, "no dense peak of a CPU is published")],
)  # fmt: skip
def test_without_a_peak_there_is_no_efficiency_but_the_reason(
    device: str, dtype: str, sms: int | None, told: str
) -> None:
    found = efficiency(1.0, dtype, device, builtin_peaks(), sms=sms)
    assert (found.share, found.peak_tflops) == (None, None)
    assert told in found.source


def test_best_mean_and_median_are_of_times() -> None:
    """2·256·512·1024 = 268.4 MFLOP in 1, 2 and 6 ms: 0.2684, 0.1342 (median), 0.0895 (mean 3)."""
    found = rates(Tried((256, 512, 1024), [9.0, 1e-3, 2e-3, 6e-3], [1e-3, 2e-3, 6e-3]))
    assert found["best_tflops"] == pytest.approx(0.268435456)
    assert found["median_tflops"] == pytest.approx(0.134217728)
    assert found["mean_tflops"] == pytest.approx(0.268435456 / 3)
    assert (found["calls"], found["all_calls"]) == (3, 4)


def outcome(stopped: str = "") -> Outcome:
    grid = make_grid((256, 512), (512,), (1024,))
    search = Search(lambda shape, calls: (shape[0] * 1e-6,) * calls, grid, effort=Effort(5, 40))
    search.run()
    return Outcome(
        search=search, grid=grid, dtype="bf16", device="Acme \x1b[31mX1", machine="m",
        environment={"torch": "9.9"}, effort=Effort(5, 40), seed=0, exhaustive=False,
        timer="event", l2="cold", stopped=stopped, spent_s=1.5, replayed=0,
        failures={(1, 2, 3): "out of memory"}, efficiency=Efficiency(0.91, 330.0, "a datasheet"),
    )  # fmt: skip


def test_the_text_says_what_was_timed_of_what_and_which_side_is_reduced() -> None:
    text = to_text(outcome())
    assert "K is reduced" in text
    assert "2 of 2 shapes timed (100.0%), 10 timings, 90 calls, 1.5 s" in text
    assert "efficiency  91.0% of 330 TFLOPS dense (a datasheet)" in text
    assert "1 shape, such as 1x2x3: out of memory" in text
    assert "torch 9.9" in text
    assert "\x1b" not in text
    assert "stopped" not in text
    assert "interrupted" in to_text(outcome("interrupted"))


def test_the_json_is_whole_and_plain() -> None:
    document = json.loads(json.dumps(to_json(outcome()), allow_nan=False))
    # 2·256·512·1024 FLOP in 256 µs and 2·512·512·1024 in 512 µs: both 1.048576 TFLOPS.
    assert document["best"]["median_tflops"] == pytest.approx(1.048576)
    assert document["best"]["calls"] == 40
    assert document["best"]["interval_tflops"] == pytest.approx([1.048576, 1.048576])
    assert len(document["shapes"]) == 2
    assert document["grid"]["reduced"] == "k"
    assert document["complete"] is True
    assert to_json(outcome("max-time"))["complete"] is False


def test_the_highest_maximum_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPERF_CACHE_DIR", str(tmp_path))
    path, kept = keep(FOUND)
    assert path.parent == tmp_path / "mamf"
    assert kept == read_cached(path, FOUND.machine, "bf16") == FOUND
    lower = CachedMamf("bf16", FOUND.machine, 60.0, (8, 8, 8), 1, 1, "one shape")
    assert keep(lower)[1] == FOUND
    assert keep(lower, replace=True)[1] == lower
    assert keep(FOUND)[1] == FOUND
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_maximum_belongs_to_device_torch_and_dtype(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPERF_CACHE_DIR", str(tmp_path))
    keep(FOUND)
    paths = {
        mamf_path(machine, dtype)
        for machine in (FOUND.machine, "Acme X1 | torch 10", "Acme X1/| torch", "../..", "x" * 999)
        for dtype in ("bf16", "fp8")
    }  # fmt: skip
    assert len(paths) == 10
    assert {p.parent for p in paths} == {tmp_path / "mamf"}
    assert all(len(p.name) < 100 for p in paths)


@pytest.mark.parametrize(
    "change",
    [{"tflops": 0}, {"tflops": math.nan}, {"tflops": "1e400"}, {"tflops": None}, {"shape": [1, 2]},
     {"shape": [1, 2, -3]}, {"shape": [1, 2, 3.5]}, {"machine": "other"}, {"dtype": "fp8"},
     {"timed": True}],
)  # fmt: skip
def test_a_damaged_cache_is_no_maximum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    monkeypatch.setenv("GPUPERF_CACHE_DIR", str(tmp_path))
    path, _ = keep(FOUND)
    assert read_cached(path, FOUND.machine, "bf16") == FOUND
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert read_cached(path, FOUND.machine, "bf16") is None
    path.write_bytes(b"\xff\xfe{")
    assert read_cached(path, FOUND.machine, "bf16") is None
