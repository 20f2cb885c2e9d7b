"""The folder of baselines: what is kept, what survives, what is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from observations import CPU, observation
from pytest_gpuperf.baselines.document import BaselineError
from pytest_gpuperf.baselines.environment import counts_agree, differences, key_of, stem
from pytest_gpuperf.baselines.files import folder_lock
from pytest_gpuperf.baselines.observation import Observation
from pytest_gpuperf.baselines.store import PartlySavedError, Store, read_file, read_samples
from pytest_gpuperf.keeping import Keeping, KeepingError, Kept, keep

TEST = "tests/test_a.py::test_step"


def _store(tmp_path: Path) -> Store:
    return Store(tmp_path / "gpuperf-baselines")


def _only_file(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "gpuperf-baselines").glob("*.json")
    return path


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    seen = observation(step_us=1234.5, samples=(1230.0, 1239.25), commit="abc+dirty")
    ((path, run, count),) = _store(tmp_path).save([seen], name="default")
    assert (run, count) == (1, 1)
    found = read_file(path)
    assert found is not None
    assert dict(found.key) == CPU
    baseline = found.baselines["default"]
    assert (baseline.runs[0].commit, dict(baseline.runs[0].others)) == (
        "abc+dirty",
        {"python": "3.11.7"},
    )
    entry = baseline.entries[(TEST, "")]
    assert [(s.value, s.n) for s in entry.sampled["step_time"]] == [(1234.5, 30)]
    last = entry.count("kernel_launches")
    assert last is not None
    assert (last.high, last.exact) == (120, True)
    assert read_samples(path, "default", 1) == {(TEST, ""): (1230.0, 1239.25)}


def test_raw_samples_can_be_left_out(tmp_path: Path) -> None:
    ((path, _, _),) = _store(tmp_path).save([observation(samples=(1.0,))], name="default")
    for file in path.with_name(f"{path.stem}.samples").iterdir():
        file.unlink()
    assert read_samples(path, "default", 1) == {}
    assert Store(path.parent).of(CPU) is not None


def test_the_last_runs_are_kept_and_numbers_go_on(tmp_path: Path) -> None:
    for i in range(5):
        seen = observation(step_us=1000.0 + i, launches=120 if i < 3 else 121, samples=(1.0,))
        _store(tmp_path).save([seen], name="default", keep=3)
    found = _store(tmp_path).of(CPU)
    assert found is not None
    entry = found.baselines["default"].entries[(TEST, "")]
    assert entry.runs == (3, 4, 5)
    assert [s.value for s in entry.sampled["step_time"]] == [1002.0, 1003.0, 1004.0]
    # A count is written where it changed: 120 since the first run kept, 121 since the fourth.
    assert [(c.run, c.high) for c in entry.counts["kernel_launches"]] == [(3, 120), (4, 121)]
    assert [r.number for r in found.baselines["default"].runs] == [3, 4, 5]
    samples = sorted(p.name for p in found.path.with_name(f"{found.path.stem}.samples").iterdir())
    assert samples == ["default-3.json.gz", "default-4.json.gz", "default-5.json.gz"]


def test_a_subset_of_tests_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    both = [observation("a.py::one"), observation("a.py::two")]
    _store(tmp_path).save(both, name="default")
    _store(tmp_path).save([observation("a.py::one")], name="default")
    found = _store(tmp_path).of(CPU)
    assert found is not None
    entries = found.baselines["default"].entries
    assert entries[("a.py::one", "")].runs == (1, 2)
    assert entries[("a.py::two", "")].runs == (1,)


def test_a_measurement_made_in_another_way_begins_anew(tmp_path: Path) -> None:
    _store(tmp_path).save([observation(ranks=2)], name="default")
    _store(tmp_path).save([observation(ranks=4)], name="default")
    found = _store(tmp_path).of(CPU)
    assert found is not None
    assert found.baselines["default"].entries[(TEST, "")].runs == (2,)


def test_the_file_is_sorted_and_a_save_changes_few_lines(tmp_path: Path) -> None:
    names = ["z.py::test", "a.py::test", "m.py::test"]
    _store(tmp_path).save([observation(n) for n in names], name="default")
    path = _only_file(tmp_path)
    before = path.read_text().splitlines()
    tests = json.loads(path.read_text())["baselines"]["default"]["tests"]
    assert list(tests) == sorted(names)
    _store(tmp_path).save([observation("m.py::test", step_us=1001.0)], name="default")
    after = path.read_text().splitlines()
    changed = [line for line in after if line not in before]
    assert len(changed) <= 8  # its runs, its step time, and the run itself


HOSTILE = [
    "tests/a.py::test[a/b]", "tests/a.py::test[line\nbreak]", "tests/a.py::test[größe-世界]",
    "tests/a.py::test[\x1b[31m]", 'tests/a.py::test["quoted\\"]', "tests/a.py::test[\ud800]",
    "tests/a.py::test[]", "tests/a.py::test[../../etc/passwd]", "t" * 5000,
]  # fmt: skip


def test_ids_of_any_kind_come_back_as_they_were(tmp_path: Path) -> None:
    from pytest_gpuperf.session.plain import plain

    names = [plain(name) for name in HOSTILE]  # as a record carries them
    _store(tmp_path).save([observation(n) for n in names], name="default")
    found = _store(tmp_path).of(CPU)
    assert found is not None
    assert sorted(test for test, _ in found.baselines["default"].entries) == sorted(names)
    assert [p.name for p in tmp_path.rglob("*")].count("passwd") == 0


def _save_many(folder: str, process: int) -> None:
    for i in range(5):
        seen = observation(f"p{process}.py::test_{i}")
        Store(Path(folder)).save([seen], name="default")


def test_runs_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    folder = str(tmp_path / "gpuperf-baselines")
    running = [context.Process(target=_save_many, args=(folder, p)) for p in range(4)]
    for process in running:
        process.start()
    for process in running:
        process.join(60)
        assert process.exitcode == 0
    found = Store(Path(folder)).of(CPU)
    assert found is not None
    assert len(found.baselines["default"].entries) == 20
    numbers = [r.number for r in found.baselines["default"].runs]
    assert numbers == list(range(1, 21))


KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from observations import observation
from pytest_gpuperf.baselines.store import Store
many = [observation(f"a.py::test_{i}") for i in range(300)]
print("saving", flush=True)
while True:
    Store(Path(sys.argv[1])).save(many, name="default")
"""


def test_a_kill_while_saving_leaves_a_whole_file_and_no_lock(tmp_path: Path) -> None:
    folder = tmp_path / "gpuperf-baselines"
    tests = str(Path(__file__).resolve().parents[2])
    for moment in (0.05, 0.13, 0.21):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder), tests], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(moment)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for path in folder.glob("*.json"):
            assert read_file(path) is not None
    # The next one waits for nobody, and clears away what the killed ones left half written.
    Store(folder).save([observation()], name="default")
    assert not list(folder.glob(".tmp-gpuperf-*"))


def test_a_run_whose_samples_cannot_be_written_is_not_half_saved(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.save([observation()], name="default", samples=False)
    before = _only_file(tmp_path).read_bytes()
    in_the_way = _only_file(tmp_path).with_suffix(".samples")
    in_the_way.write_text("no folder")
    with pytest.raises(OSError, match="exists"):
        store.save([observation(samples=(1.0,))], name="default")
    assert _only_file(tmp_path).read_bytes() == before
    in_the_way.unlink()
    ((_, number, _),) = store.save([observation()], name="default")
    assert number == 2


def test_a_full_disk_leaves_the_old_file_and_is_one_error(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.save([observation()], name="default")
    before = _only_file(tmp_path).read_bytes()
    many = [observation(f"a.py::test_{i}") for i in range(2000)]
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.save(many, name="default")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, former)
    assert _only_file(tmp_path).read_bytes() == before
    assert [p.name for p in (tmp_path / "gpuperf-baselines").iterdir()] == [
        _only_file(tmp_path).name
    ]


def _of_two_environments(tmp_path: Path) -> tuple[Store, Path, Path]:
    """A store, and its files for the two environments of :func:`_both`, in the order of a save."""
    store = _store(tmp_path)
    (first, _, _), (second, _, _) = store.save(_both(), name="default", samples=False)
    return store, first, second


def _both() -> list[Observation]:
    own = (1.0,)
    return [
        observation(samples=own),
        observation(samples=own, key={**CPU, "threads": "7"}),
    ]


def test_of_two_environments_the_error_names_what_was_saved_and_what_was_not(
    tmp_path: Path,
) -> None:
    store, first, second = _of_two_environments(tmp_path)
    before = second.read_bytes()
    second.with_suffix(".samples").write_text("no folder")
    with pytest.raises(PartlySavedError) as told:
        store.save(_both(), name="default")
    assert told.value.saved == ((first, 2, 1),)
    assert told.value.left == (second,)
    assert f"{first.name} was saved, {second.name} was not" in str(told.value)
    assert second.read_bytes() == before
    assert [r.number for r in read_file(first).baselines["default"].runs] == [1, 2]

    kept = Kept({(str(n), ""): o.to_json() for n, o in enumerate(_both())})
    wanted = Keeping(store.folder, save="default")
    with pytest.raises(KeepingError) as line:
        keep(kept, wanted, tmp_path / ".gpuperf", disabled=False)
    said = f"saved in {first} (1 measurement, run 3), but not in {second}: "
    assert str(line.value).startswith(f"gpuperf: baseline 'default' {said}")
    assert "\n" not in str(line.value)


def test_where_one_of_two_files_cannot_be_read_neither_is_written(tmp_path: Path) -> None:
    store, first, second = _of_two_environments(tmp_path)
    before = first.read_bytes()
    second.write_text("{")
    with pytest.raises(BaselineError, match=second.name):
        store.save(_both(), name="default", samples=False)
    assert first.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(tmp_path)
    store.save([observation()], name="default")
    before = _only_file(tmp_path).read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(30, "Read-only file system")

    # Whoever runs the tests may be root, whom no permission stops.
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(OSError, match="Read-only"):
        store.save([observation()], name="default")
    assert _only_file(tmp_path).read_bytes() == before


def test_a_clock_that_goes_backwards_changes_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pytest_gpuperf.baselines.store as module

    real = module.dt.datetime

    class Clock(real):  # type: ignore[misc, valid-type]
        day = 20

        @classmethod
        def now(cls, tz=None):
            cls.day -= 1
            return real(2026, 1, cls.day, tzinfo=tz)

    monkeypatch.setattr(module.dt, "datetime", Clock)
    for i in range(3):
        _store(tmp_path).save([observation(step_us=1000.0 + i)], name="default", keep=2)
    found = _store(tmp_path).of(CPU)
    assert found is not None
    runs = found.baselines["default"].runs
    assert [r.number for r in runs] == [2, 3]
    assert runs[0].at > runs[1].at  # the clock's word
    assert found.baselines["default"].entries[(TEST, "")].sampled["step_time"][-1].value == 1002.0


NO_RUN = (
    b'{"format": "pytest-gpuperf baselines", "schema": 1, "environment": {}, '
    b'"baselines": {"default": {"runs": {}, "tests": {"a": {"": {"runs": []}}}}}}'
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b'{"format": "pytest-gpuperf baselines", "schema": 1, "env', "cut short"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"[]", "is not a file of"),
        (b'{"schema": 1}', "is not a file of"),
        (b'{"format": "pytest-gpuperf baselines"}', "no schema number"),
        (b'{"format": "pytest-gpuperf baselines", "schema": 99}', "update pytest-gpuperf"),
        (b'{"format": "pytest-gpuperf baselines", "schema": 1}', "is damaged"),
        (NO_RUN, "is damaged"),
        (b"{\n<<<<<<< ours\n=======\n>>>>>>> theirs\n}", "merge conflict"),
        (b"[" * 100_000, "no JSON"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_one_clear_line_and_is_not_written_over(
    tmp_path: Path, content: bytes, said: str
) -> None:
    store = _store(tmp_path)
    store.save([observation()], name="default")
    path = _only_file(tmp_path)
    path.write_bytes(content)
    with pytest.raises(BaselineError) as raised:
        Store(path.parent).of(CPU)
    message = str(raised.value)
    assert said in message
    assert str(path) in message
    assert "\n" not in message
    with pytest.raises(BaselineError):
        Store(path.parent).save([observation()], name="default")
    assert path.read_bytes() == content


def test_ten_thousand_tests_are_saved_and_read_in_seconds(tmp_path: Path) -> None:
    store = _store(tmp_path)
    many = [observation(f"tests/test_{i // 50}.py::test_step[{i}]") for i in range(10_000)]
    begin = time.process_time()
    store.save(many, name="default")
    store.save(many, name="default")
    found = Store(store.folder).of(CPU)
    seconds = time.process_time() - begin
    assert found is not None
    assert len(found.baselines["default"].entries) == 10_000
    # Two saves and a read took 1.6 s on two shared cores; ten times as much is a change of order.
    assert seconds < 16


def test_the_lock_leaves_no_file(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "made"):
        assert list((tmp_path / "made").iterdir()) == []


# --- environments -------------------------------------------------------------------------

GPU = {
    "device": "NVIDIA H100 80GB HBM3", "driver": "550.54", "cuda": "12.4", "torch": "2.13.0",
    "power_limit": "700 W", "clocks": "default", "cpu_model": "Made-up", "cores": "8",
    "python": "3.12.1", "commit": "abc",
}  # fmt: skip


def test_the_key_of_a_gpu_and_of_a_cpu() -> None:
    assert set(key_of(GPU, "cuda")) == {
        "device", "driver", "cuda", "torch", "power_limit", "clocks",
    }  # fmt: skip
    assert set(key_of({**GPU, "device": "cpu"}, "cpu")) == {"device", "cpu_model", "cores", "torch"}


@pytest.mark.parametrize("name", ["device", "driver", "cuda", "torch", "power_limit", "clocks"])
def test_whatever_differs_in_the_key_is_another_file_and_named(name: str) -> None:
    here, there = key_of(GPU, "cuda"), key_of({**GPU, name: "other"}, "cuda")
    assert stem(here) != stem(there)
    (said,) = differences(there, here)
    assert "other in the baseline" in said
    assert f"{GPU[name]} here" in said


def test_names_of_files_are_readable_and_safe() -> None:
    key = {"device": "cpu", "cpu_model": "Intel(R) Xeon(R) CPU @ 2.20GHz/../x", "cores": "2"}
    name = stem({**key, "torch": "2.13.0+cpu"})
    assert name.startswith("cpu-intel-xeon")
    assert "/" not in name
    assert os.sep not in name


def test_counts_may_be_compared_across_cpus_of_one_torch_only() -> None:
    here = {**CPU, "platform": "Linux-6.1-x86_64-with-glibc2.36"}
    assert counts_agree(here, {**here, "cpu_model": "Another", "cores": "64"})
    assert counts_agree(here, {**here, "torch": "2.13.0+cpu"})  # another build of the same
    assert not counts_agree(here, {**here, "platform": "Linux-6.1-aarch64-with-glibc2.36"})
    assert not counts_agree(CPU, {**CPU, "torch": "2.12.0"})
    # With one thread aten::cat copies at once, with several it narrows and copies: other op calls.
    assert not counts_agree({**CPU, "threads": "1"}, {**CPU, "threads": "8"})
    assert counts_agree({**CPU, "threads": "2"}, {**CPU, "threads": "8"})
    assert not counts_agree(key_of(GPU, "cuda"), key_of({**GPU, "driver": "1"}, "cuda"))
