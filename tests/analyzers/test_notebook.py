"""docs/notebook.py runs from a folder of ranks to its tables and its picture."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kineto import KinetoTrace

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebook.py"
TABLES = (
    "metrics", "timelines", "ops", "kernels", "FLOPs", "modules", "launch-bound ops", "host",
    "gradient buckets", "ms by rank",
)  # fmt: skip
needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def run(*arguments: object, hide: str = "", tmp_path: Path) -> str:
    """What the notebook prints; any warning is an error. `hide` is a package made absent."""
    start = f"import sys, runpy; sys.modules[{hide!r}] = None; " if hide else "import runpy, sys; "
    start += f"sys.argv = {[str(NOTEBOOK), *map(str, arguments)]!r}; "
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c",
         start + f"runpy.run_path({str(NOTEBOOK)!r}, run_name='__main__')"],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path / "matplotlib")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def two_ranks(folder: Path) -> Path:
    folder.mkdir()
    for rank in range(2):
        t = KinetoTrace(rank=rank, world_size=2)
        with t.step(1, at=0, dur=100):
            t.op("aten::mm", 5, 10, dims=[[64, 32], [32, 16]], dtypes=["float", "float"])
            t.launch("gemm", at=6, runs=(10, 40))
            t.launch(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at=7, runs=(20, 60 + rank), stream=9
            )
        t.write(folder / f"rank{rank}.json")
    return folder


def rows_under(title: str, printed: str) -> list[str]:
    return printed.partition(f"\n{title}\n")[2].partition("\n\n")[0].splitlines()


def test_every_table_is_printed_and_the_parts_are_those_drawn(tmp_path: Path) -> None:
    printed = run(two_ranks(tmp_path / "traces"), hide="matplotlib", tmp_path=tmp_path)
    for title in TABLES[1:]:
        assert rows_under(title, printed), title
    *_, first, second = rows_under("ms by rank", printed)
    # 10-40 compute, 40-60 (61) communication alone, no gap: in ms.
    assert first.split() == ["rank", "0", "device", "0", "0.03", "0.02", "0", "0"]
    assert second.split() == ["rank", "1", "device", "0", "0.03", "0.021", "0", "0"]
    assert 'no picture: pip install "pytest-gpuperf[plot]"' in printed


@needs_matplotlib
def test_the_picture_is_a_png(tmp_path: Path) -> None:
    picture = tmp_path / "ranks.png"
    printed = run(two_ranks(tmp_path / "traces"), picture, tmp_path=tmp_path)
    assert f"picture: {picture.resolve()}" in printed
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize("folder", ["param-dlrm-kineto", "local-torch214-cpu/ddp_gloo_4ranks"])
def test_it_runs_over_real_sets_of_ranks(folder: str, shared_traces: Path, tmp_path: Path) -> None:
    printed = run(shared_traces / folder, tmp_path / "ranks.png", tmp_path=tmp_path)
    assert "collectives over all ranks" in printed
    assert len(rows_under("ms by rank", printed)) == {"param": 8, "local": 4}[folder[:5]] + 2


def test_it_names_the_slowest_step_and_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "slow"
    folder.mkdir()
    for rank in range(3):
        t = KinetoTrace(rank=rank, world_size=3)
        at = 0
        for number in range(4):
            length = 900 if (rank, number) == (1, 2) else 300
            with t.step(number, at=at, dur=length):
                t.launch("gemm", at=at, runs=(at, at + length), call_dur=1)
            at += length
        t.write(folder / f"rank{rank}.json")
    printed = run(folder, hide="matplotlib", tmp_path=tmp_path)
    assert printed.startswith("Rank 1 is slower: its step takes 600 µs (200%) longer")
    assert "slowest: ('rank 1', 'ProfilerStep#2'), 600 µs over the median: compute" in printed
