"""Points over a Dask cluster of processes."""

from __future__ import annotations

import json
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.sweep.cluster import over_workers
from pytest_gpuperf.sweep.points import Settings, run_point
from pytest_gpuperf.sweep.target import find_target, fingerprint

pytest.importorskip("torch")
distributed = pytest.importorskip("distributed")

STEP = f"{Path(__file__).with_name('steps.py')}:double"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        local_directory=str(tmp_path),
    ) as made:  # fmt: skip
        yield made


@pytest.mark.filterwarnings("default::ResourceWarning", "default::DeprecationWarning")
def test_points_run_on_workers_and_end_with_the_sweep(cluster, tmp_path: Path) -> None:
    address = cluster.scheduler_address
    status = main(["sweep", STEP, "--axis=size=4,8", "--axis=fail=no", "--device=cpu",
                   "--warmup=0.001", "--max-time=0.001", "--steps=1", "--out=r.json",
                   f"--scheduler={address}"])  # fmt: skip
    assert status == 0
    document = json.loads(Path("r.json").read_text())
    assert [(r["index"], r["values"]["size"], r["status"]) for r in document["results"]] == [
        (0, 4, "measured"), (1, 8, "measured")
    ]  # fmt: skip
    assert [r["metrics"]["peak_memory"]["value"] for r in document["results"]] == [48, 96]

    target, log = find_target(STEP), tmp_path / "begun"
    settings = Settings("cpu", warmup_s=0.001, max_time_s=0.001, steps=1)
    run = partial(run_point, target, fingerprint(target), settings=settings)
    todo = [(0, {"size": 4, "fail": "hang", "log": str(log)})]
    points = over_workers(todo, run, address)

    def left() -> list[Path]:
        return list(tmp_path.glob("gpuperf-point-*"))

    with closing(points):
        import threading

        # Asked for in a thread, as the first result never comes.
        asking = threading.Thread(target=_first, args=(points,), daemon=True)
        asking.start()
        end = time.monotonic() + 120
        while not log.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert left()
        with distributed.Client(address) as client:
            from pytest_gpuperf.sweep import cluster as ours

            (sweep,) = {s for each in client.run(_running).values() for s in each}
            assert sum(client.run(ours._end, sweep).values()) == 1
        asking.join(60)
    while left():
        assert time.monotonic() < end + 60
        time.sleep(0.05)


def _first(points) -> None:
    next(points, None)


def _running() -> list[str]:
    from pytest_gpuperf.sweep import cluster as ours

    return [sweep for sweep, pids in ours._running.items() if pids]
