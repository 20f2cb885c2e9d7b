"""Other processes' share of the CPUs, from counts by hand and from a process of our own making."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_gpuperf.recording.busy_cpus import CpuTicks, others_share, read_ticks, watch_others

needs_proc = pytest.mark.skipif(
    not Path("/proc/stat").is_file() or not hasattr(os, "sched_setaffinity"),
    reason="Linux tells what CPUs are busy with",
)


def test_only_usable_cpus_count_and_idle_and_iowait_are_not_busy(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  0 0 0 0 0 0 0 0 0 0\n"
        "cpu0 10 1 20 100 7 2 3 4 50 0\n"
        "cpu1 1000 0 0 0 0 0 0 0 0 0\n"
        "intr 1 2 3\n"
    )
    ticks = read_ticks(frozenset({0}), stat=stat)
    assert ticks is not None
    assert ticks.busy == 10 + 1 + 20 + 2 + 3 + 4  # guest's 50 stand in user's already
    assert ticks.total == ticks.busy + 100 + 7


def test_others_are_what_was_busy_and_not_ours() -> None:
    before = CpuTicks(1000, 400, 100)
    after = CpuTicks(1200, 550, 130)  # 150 busy of 200, 30 of them ours
    assert others_share(before, after, cpus=2) == pytest.approx(120 / 200)
    assert others_share(before, CpuTicks(1200, 410, 130), cpus=2) == 0.0
    assert others_share(before, CpuTicks(1010, 410, 100), cpus=2) is None  # five ticks a CPU


def test_no_proc_stat_gives_no_note(tmp_path: Path) -> None:
    assert read_ticks(frozenset({0}), stat=tmp_path / "none") is None


@needs_proc
def test_a_busy_process_on_our_only_cpu_is_told() -> None:
    mine = os.sched_getaffinity(0)
    cpu = min(mine)
    code = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile 1: pass"
    busy = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert busy.stdout is not None
        busy.stdout.readline()
        os.sched_setaffinity(0, {cpu})
        notes = watch_others(siblings=False)
        time.sleep(0.5)  # we take nothing: the other has the CPU to itself
        (note,) = notes()
    finally:
        os.sched_setaffinity(0, mine)
        busy.kill()
        busy.communicate()
    share = int(note.removeprefix("other processes took ").partition("%")[0])
    assert share >= 80


@needs_proc
def test_our_own_work_is_not_others_and_neither_is_a_siblings() -> None:
    cpus = frozenset(os.sched_getaffinity(0))
    alone, family = read_ticks(cpus), read_ticks(cpus, siblings=True)
    begin = time.process_time()
    while time.process_time() - begin < 0.3:
        pass
    ticks = os.sysconf("SC_CLK_TCK")
    for siblings, before in ((False, alone), (True, family)):
        after = read_ticks(cpus, siblings=siblings)
        assert before is not None
        assert after is not None
        assert after.own - before.own >= 0.25 * ticks
