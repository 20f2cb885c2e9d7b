"""The collector during samples, and who watches."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from pytest_gpuperf.recording.quiet import garbage_collection_off, observers
from pytest_gpuperf.recording.worker_threads import watch_threads

PYTHONS_OWN = 1000  # Python 3.12 freezes a few hundred objects of its own


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("freeze", [True, False])
def test_the_collector_is_off_within_and_as_before_after(enabled: bool, freeze: bool) -> None:
    if not enabled:
        gc.disable()
    with garbage_collection_off(freeze=freeze):
        assert not gc.isenabled()
        assert (gc.get_freeze_count() > PYTHONS_OWN) is freeze
    assert gc.isenabled() is enabled
    assert gc.get_freeze_count() < PYTHONS_OWN


def test_the_collector_is_restored_when_the_block_raises() -> None:
    with pytest.raises(KeyError), garbage_collection_off(freeze=True):
        raise KeyError
    assert gc.isenabled()
    assert gc.get_freeze_count() < PYTHONS_OWN


def test_what_the_program_froze_stays_frozen() -> None:
    keep = [[] for _ in range(5000)]
    gc.freeze()
    count = gc.get_freeze_count()
    assert count > len(keep)
    with garbage_collection_off(freeze=True):
        assert gc.get_freeze_count() == count
    assert gc.get_freeze_count() == count


@pytest.fixture
def _unwatched() -> Iterator[None]:
    trace, profile = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    yield
    sys.settrace(trace)
    sys.setprofile(profile)


@pytest.mark.usefixtures("_unwatched")
def test_nobody_watching_is_no_note() -> None:
    assert observers() == ()


@pytest.mark.usefixtures("_unwatched")
def test_a_debugger_is_named() -> None:
    def hook(*_: object) -> None:
        return

    hook.__module__ = "bdb"
    sys.settrace(hook)
    try:
        found = observers()
    finally:
        sys.settrace(None)
    assert found == ("a debugger traces every line (sys.settrace): times include its cost",)


@pytest.mark.usefixtures("_unwatched")
def test_a_python_profiler_is_named() -> None:
    def hook(*_: object) -> None:
        return

    hook.__module__ = "yappi.core"
    sys.setprofile(hook)
    try:
        found = observers()
    finally:
        sys.setprofile(None)
    assert found == ("yappi profiles every call (sys.setprofile): times include its cost",)


@pytest.mark.usefixtures("_unwatched")
def test_a_hook_for_new_threads_is_told() -> None:
    threading.settrace(lambda *_: None)
    try:
        (note,) = observers()
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    assert "traces new threads" in note


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is of Python 3.12")
@pytest.mark.usefixtures("_unwatched")
def test_a_monitoring_tool_is_told_once_it_asks_for_events() -> None:
    monitoring = sys.monitoring
    monitoring.use_tool_id(4, "mytool")
    try:
        assert observers() == ()
        monitoring.set_events(4, monitoring.events.LINE)
        assert observers() == ("mytool watches execution (sys.monitoring): times include its cost",)
    finally:
        monitoring.set_events(4, 0)
        monitoring.free_tool_id(4)


def spin(seconds: float) -> None:
    import time

    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_a_thread_started_within_is_seen() -> None:
    start = threading.Thread.start
    with watch_threads() as watch:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    assert watch.worked
    assert threading.Thread.start is start


def test_a_pool_that_works_is_seen_and_one_that_waits_is_not() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with watch_threads() as idle:
            spin(0.05)
        with watch_threads() as busy:
            pool.submit(spin, 0.1).result()
    assert (idle.worked, busy.worked) == (False, True)
