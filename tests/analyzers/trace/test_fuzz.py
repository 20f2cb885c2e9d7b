"""Damaged files through reader and analyzers: an answer or one clear line, in bounded time."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuperf_analyzers.analysis import analyze
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.model import TraceError
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace
from mutations import mutated

ROUNDS = 500
SECONDS = 20.0
MEMORY = 300 * 2**20
"""How far the peak of memory may rise over all rounds; the files are under 1 MB."""


@contextlib.contextmanager
def _watchdog(what: str) -> Iterator[None]:
    def bark(*_: object) -> None:
        pytest.fail(f"{what}: no answer in {SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _sources(folder: Path, tmp_path: Path) -> list[bytes]:
    """Files under 1 MB: synthetic, and where they are at hand real ones of every kind."""
    t = KinetoTrace(rank=0, world_size=2)
    for n in range(3):
        with t.step(n, at=1000 * n, dur=1000):
            for i in range(20):
                at = 1000 * n + 40 * i
                t.op("aten::mm", at=at, dur=30, dims=[[8, 8], [8, 8]], dtypes=["float", "float"])
                t.launch("gemm", at=at + 2, runs=(at + 5, at + 20))
                t.launch("ncclDevKernel_AllReduce", at=at + 9, runs=(at + 15, at + 38), stream=20)
            t.memory(1000 * n, 512, 512)
    sources = [t.write(tmp_path / "source.json").read_bytes()]
    for path in sorted(folder.rglob("*.json")) if folder.is_dir() else []:
        if path.stat().st_size < 100_000 and path.name not in {"index.json", "expected.json"}:
            sources.append(path.read_bytes())
    return sources


def _ending(path: Path, config: Config) -> str:
    """How reading and analyzing ends: ``read``, ``refused`` in one line, or what went wrong."""
    try:
        analyze(read_trace(path), config)
    except TraceError as error:
        one_line = str(path) in str(error) and "\n" not in str(error)
        return "refused" if one_line else f"a poor message: {error}"
    except Exception:  # noqa: BLE001  # every other end is the defect that is looked for
        return traceback.format_exc()
    return "read"


@pytest.mark.filterwarnings("error")
def test_no_damage_ends_in_a_traceback_a_hang_or_without_bounds(tmp_path: Path) -> None:
    config = load_config()
    shared = Path(__file__).resolve().parents[4] / "shared" / "traces"
    sources = _sources(shared, tmp_path)
    path = tmp_path / "mutated.json"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    read = 0
    for seed in range(ROUNDS):
        rng = random.Random(seed)
        path.write_bytes(mutated(rng.choice(sources), rng))
        with _watchdog(f"seed {seed}"):
            ending = _ending(path, config)
        assert ending in {"read", "refused"}, f"seed {seed}: {ending}"
        read += ending == "read"
    assert read > ROUNDS // 2
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert after - before < MEMORY


HEAD = b'{"traceEvents": ['
WHOLE = b'{"ph": "X", "name": "a", "ts": 1, "dur": 1}'
MANY = 200_000

LONG = {
    "digits": HEAD + WHOLE + b', {"ph": "X", "ts": ' + b"1" * MANY + b"}]}",
    "digits and points": HEAD + WHOLE + b', {"ph": "X", "ts": ' + b"1." * MANY + b"}]}",
    "opening braces": HEAD + b"{" * MANY,
    "closing braces": HEAD + WHOLE + b"}" * MANY,
    "closing brackets": HEAD + WHOLE + b"]" * MANY,
    "commas": HEAD + WHOLE + b"," * MANY + WHOLE + b"]}",
    "spaces": HEAD + WHOLE + b" " * MANY + b"," + b" " * MANY + WHOLE + b"]}",
    "quotes": HEAD + WHOLE + b',"' * MANY,
    "backslashes": HEAD + b'{"ph": "X", "name": "' + b"\\" * MANY + b'"}]}',
    "bad escapes": HEAD + b'{"ph": "X", "name": "' + b"\\q" * MANY + b'"}]}',
    "beginnings of events": HEAD + b',{"ph":' * (MANY // 4),
    "broken events": HEAD + b",".join([b'{"ph": "X", "name": "a"b"}'] * (MANY // 20)) + b"]}",
    "broken metadata": b"{" + b'"a": x, ' * (MANY // 8) + b'"traceEvents": []}',
    "broken metadata after the events": HEAD + WHOLE + b"], " + b'"a": x, ' * (MANY // 8) + b"}",
    "bad UTF-8": HEAD + b'{"ph": "X", "name": "' + b"\xff" * MANY + b'"}]}',
    "nested objects": HEAD + b'{"a":' * MANY,
    "exponents": HEAD + b'{"ph": "X", "ts": 1e' + b"9" * MANY + b"}]}",
    "events without commas": b"[" + WHOLE * (MANY // 40) + b"]",
    "open begins": b"[" + b",".join([b'{"ph": "B", "ts": 1}'] * (MANY // 20)) + b"]",
}


@pytest.mark.parametrize("kind", LONG)
def test_a_long_run_of_anything_takes_no_longer_than_its_length(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_bytes(LONG[kind])
    # A quadratic reader takes minutes for these, a linear one a second.
    with _watchdog(kind), contextlib.suppress(TraceError):
        assert len(read_trace(path).events) <= MANY // 40


def test_reading_stops_where_there_is_only_noise(tmp_path: Path) -> None:
    path = tmp_path / "noise.json"
    broken = b'{"ph": "X", "name": "a"b"}'
    path.write_bytes(HEAD + b",".join([WHOLE] * 1000 + [broken] * 50_000 + [WHOLE]) + b"]}")
    trace = read_trace(path)
    assert len(trace.events) == 1000
    found = {f.code: f for f in trace.findings}
    assert found["events-lost"].count < 10_000
    assert "overlap" in found["too-damaged"].invalidates


def test_many_broken_events_among_more_whole_ones_cost_only_themselves(tmp_path: Path) -> None:
    path = tmp_path / "quotes.json"
    broken = b'{"ph": "X", "name": "a"b"}'
    path.write_bytes(HEAD + b",".join([WHOLE, WHOLE, broken] * 4000) + b"]}")
    trace = read_trace(path)
    assert len(trace.events) == 8000
    assert [(f.code, f.count) for f in trace.findings] == [("events-lost", 4000)]
