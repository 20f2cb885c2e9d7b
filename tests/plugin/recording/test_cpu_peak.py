"""The measured peak of a CPU and its cache."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpuperf.recording import RecordingError, cpu_peak, measured_cpu_peak
from pytest_gpuperf.recording.cpu_peak import Found

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cpu_peak.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cpu_peak, "_in_process", {})
    monkeypatch.setattr(cpu_peak, "_too_busy_at", {})
    monkeypatch.setattr(cpu_peak, "_searched_again", set())


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Dtypes searched for; each search finds 1, 2, … TFLOPS."""
    made: list[str] = []

    def search(dtype: str) -> Found:
        made.append(dtype)
        return Found(float(len(made)), steady=True)

    monkeypatch.setattr(cpu_peak, "_search", search)
    return made


def forget() -> None:
    cpu_peak._in_process.clear()
    cpu_peak._searched_again.clear()


def timed(
    monkeypatch: pytest.MonkeyPatch, lost_at: Callable[[int], bool], ns: float = 1.0
) -> list[int]:
    """Let a matmul of N take `ns`·N³ ns, and lose a core in the repetitions that `lost_at` says.

    2·N³ FLOP in N³ ns are 0.002 TFLOPS, whatever N. The sizes tried come back.
    """
    now, lost = [0.0], [0]
    sizes: list[int] = []

    def mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        size = a.shape[0]
        sizes.append(size)
        disturbed = lost_at(size)
        lost[0] += disturbed
        # Sharing a core makes it ten times slower.
        now[0] += size**3 * ns * 1e-9 * (10 if disturbed else 1)

    monkeypatch.setattr(torch, "mm", mm)
    monkeypatch.setattr(cpu_peak, "perf_counter", lambda: now[0])
    monkeypatch.setattr(cpu_peak, "sleep", lambda _: None)
    monkeypatch.setattr(cpu_peak, "cores_lost", lambda: lost[0])
    return sizes


def test_the_peak_is_2n3_over_the_time_of_the_fastest_matmul(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = timed(monkeypatch, lambda _: False)
    assert measured_cpu_peak("fp32") == pytest.approx(0.002)
    # 256 to 768 take 0.02 to 0.45 s; 1024 would take 1.1 s, and a second is all there is.
    assert sorted(set(sizes)) == [256, 384, 512, 768]


def test_repetitions_that_lost_a_core_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = iter(range(10**6))
    timed(monkeypatch, lambda _: next(turn) % 3 != 2)
    assert measured_cpu_peak("fp32") == pytest.approx(0.002)


def test_one_undisturbed_millisecond_on_a_busy_machine_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Only the smallest is ever left in peace: 17 ms each, and larger ones are not waited for.
    sizes = timed(monkeypatch, lambda size: size > 256)
    assert measured_cpu_peak("fp32") == pytest.approx(0.002)
    assert sorted(set(sizes)) == [256, 384]


def test_a_matmul_too_short_to_tell_the_peak_does_not_stand_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A hundred times faster: 256 takes 0.17 ms, 384 and 512 take 0.6 and 1.3 ms.
    timed(monkeypatch, lambda size: size > 384, ns=0.01)
    with pytest.raises(RecordingError, match="no fp32 peak"):
        measured_cpu_peak("fp32")


def test_a_machine_that_was_too_busy_is_asked_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[float] = []
    now = [100.0]

    def search(_: str) -> Found | None:
        searches.append(now[0])
        return None if len(searches) == 1 else Found(0.5, steady=True)

    monkeypatch.setattr(cpu_peak, "_search", search)
    monkeypatch.setattr(cpu_peak, "perf_counter", lambda: now[0])
    for at in (100.0, 120.0):
        now[0] = at
        with pytest.raises(RecordingError, match="no fp32 peak"):
            measured_cpu_peak("fp32")
    now[0] = 131.0
    assert measured_cpu_peak("fp32") == 0.5
    assert searches == [100.0, 131.0]


def test_a_machine_that_is_always_busy_has_no_peak_and_caches_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed(monkeypatch, lambda _: True)
    for _ in range(2):
        with pytest.raises(RecordingError, match="no fp32 peak of this CPU: other processes kept"):
            measured_cpu_peak("fp32")
    assert not (cpu_peak.cache_directory() / "cpu-peaks.json").exists()


def test_the_peak_is_at_least_what_one_matmul_reaches() -> None:
    import time

    a = torch.rand(512, 512)
    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        a @ a
        best = max(best, 2 * 512**3 / (time.perf_counter() - start) / 1e12)
    try:
        peak = measured_cpu_peak("fp32")
    except RecordingError as busy:
        pytest.skip(str(busy))
    # Other work may have slowed either measurement; a wrong unit is off by a thousand.
    assert best / 4 < peak < 1000


def test_the_measurement_draws_no_random_number_of_the_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed(monkeypatch, lambda _: False)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    measured_cpu_peak("fp32")
    assert torch.equal(torch.rand(3), expected)


def test_it_is_measured_once_and_then_read(searches: list[str]) -> None:
    assert [measured_cpu_peak("fp32") for _ in range(2)] == [1.0, 1.0]
    forget()
    assert measured_cpu_peak("fp32") == 1.0
    assert measured_cpu_peak("bf16") == 2.0
    assert searches == ["fp32", "bf16"]


def test_another_thread_count_is_another_machine(
    searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_cpu_peak("fp32")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 99)
    assert measured_cpu_peak("fp32") == 2.0


@pytest.mark.parametrize(
    "damage", ["", "{", "[1]", '{"x": 3}', '{"x": {"fp32": "fast"}}', "\x00\xff"]
)
def test_a_damaged_cache_is_measured_again_and_mended(searches: list[str], damage: str) -> None:
    path = cpu_peak.cache_directory() / "cpu-peaks.json"
    path.parent.mkdir(parents=True)
    path.write_text(damage, encoding="latin-1")
    assert measured_cpu_peak("fp32") == 1.0
    forget()
    assert measured_cpu_peak("fp32") == 1.0
    assert {"fp32": 1.0} in json.loads(path.read_text()).values()
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "cpu-peaks.json",
        "cpu-peaks.json.lock",
    ]


def test_a_peak_of_zero_or_a_boolean_in_the_cache_is_no_peak(searches: list[str]) -> None:
    measured_cpu_peak("fp32")
    path = cpu_peak.cache_directory() / "cpu-peaks.json"
    (machine,) = json.loads(path.read_text())
    for wrong in (0, -1.0, True):
        path.write_text(json.dumps({machine: {"fp32": wrong}}))
        forget()
        assert measured_cpu_peak("fp32") == len(searches)


def test_a_cache_that_cannot_be_written_is_done_without(
    searches: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a directory")
    monkeypatch.setenv(cpu_peak.CACHE_VARIABLE, str(blocker / "cache"))
    assert [measured_cpu_peak("fp32"), measured_cpu_peak("fp32")] == [1.0, 1.0]
    assert searches == ["fp32"]


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(RecordingError, match=r"fp64, fp32, bf16, fp16, not for 'int8'"):
        measured_cpu_peak("int8")


def test_processes_at_once_agree_on_one_measurement(tmp_path: Path) -> None:
    code = (
        "from pytest_gpuperf.recording import cpu_peak\n"
        "import time, os\n"
        "def search(dtype):\n"
        "    time.sleep(0.3)\n"
        "    return cpu_peak.Found(float(os.getpid()), steady=True)\n"
        "cpu_peak._search = search\n"
        "print(cpu_peak.measured_cpu_peak('fp32'))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120)[0].strip() for process in running]
    assert answers[0] == answers[1] != ""


def test_a_peak_that_is_only_looked_up_is_not_searched_for(searches: list[str]) -> None:
    with pytest.raises(RecordingError, match="no fp32 peak"):
        measured_cpu_peak("fp32", search="never")
    assert not searches
    assert measured_cpu_peak("fp32", search="missing") == 1.0
    forget()
    assert measured_cpu_peak("fp32", search="never") == 1.0


def test_what_a_busy_machine_gave_is_bettered_by_the_next_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gave = iter([0.4, 0.5, 0.3, 0.45, 0.2, 9.9])
    monkeypatch.setattr(cpu_peak, "_search", lambda _: Found(next(gave), steady=False))
    best = []
    for _ in range(7):
        best.append(measured_cpu_peak("fp32"))
        assert measured_cpu_peak("fp32") == best[-1]  # once a process
        forget()
    assert best == [0.4, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]  # five searches, no sixth
    assert measured_cpu_peak("fp32", search="never") == 0.5


def test_a_quiet_moment_ends_the_search_for_better(monkeypatch: pytest.MonkeyPatch) -> None:
    gave = iter([Found(0.4, steady=False), Found(0.38, steady=True)])
    monkeypatch.setattr(cpu_peak, "_search", lambda _: next(gave))
    for expected in (0.4, 0.4, 0.4):
        assert measured_cpu_peak("fp32") == expected
        forget()
    (entry,) = json.loads((cpu_peak.cache_directory() / "cpu-peaks.json").read_text()).values()
    assert entry == {"fp32": 0.4}


def test_long_matmuls_left_in_peace_tell_a_quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ten times faster than above: 256 takes 1.7 ms, 512 takes 13 ms.
    timed(monkeypatch, lambda size: size > 384, ns=0.1)
    assert cpu_peak._search("fp32") == Found(pytest.approx(0.02), steady=False)
    timed(monkeypatch, lambda size: size > 512, ns=0.1)
    assert cpu_peak._search("fp32") == Found(pytest.approx(0.02), steady=True)


def test_a_settled_peak_is_searched_again_once_a_process_and_the_best_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gave = iter([Found(1.0, steady=True), Found(1.04, steady=True), Found(0.9, steady=True)])
    monkeypatch.setattr(cpu_peak, "_search", lambda _: next(gave))
    assert measured_cpu_peak("fp32") == 1.0
    assert [measured_cpu_peak("fp32", search="again") for _ in range(2)] == [1.04, 1.04]
    forget()
    assert measured_cpu_peak("fp32") == 1.04  # kept for the next process, which needs no search
    assert measured_cpu_peak("fp32", search="again") == 1.04  # the third gave less


def test_a_machine_too_busy_to_be_searched_again_keeps_its_peak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gave = iter([Found(1.0, steady=True), None])
    monkeypatch.setattr(cpu_peak, "_search", lambda _: next(gave))
    assert measured_cpu_peak("fp32") == 1.0
    assert measured_cpu_peak("fp32", search="again") == 1.0
