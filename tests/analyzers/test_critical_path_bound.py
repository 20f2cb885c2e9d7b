"""The path bounds what can be gained: a simulated run is run once more with a class made free.

The simulation knows every dependency: streams run in order, a launch takes 5 µs, a stream waits
for the events it was told to, and the host runs on one thread. Recorded with ``cuda_sync`` events
or without, no run without communication (or compute) may beat what its path allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuperf_analyzers import critical_path
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.critical_path import Path as FoundPath
from gpuperf_analyzers.critical_path import PathClass
from gpuperf_analyzers.metrics import BUILTIN
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS
from kineto import KinetoTrace

CONFIG = Config({m.name: m for m in BUILTIN}, comm_classifiers=BUILTIN_CLASSIFIERS)
NAMES = {True: "ncclDevKernel_AllReduce_Sum_f32_RING_LL", False: "gemm"}
LAUNCH, CALL = 5.0, 2.0


@dataclass(frozen=True)
class Op:
    length: int


@dataclass(frozen=True)
class Kernel:
    stream: int
    length: int
    comm: bool


@dataclass(frozen=True)
class Wait:
    """The stream waits for what the other one has been given so far."""

    stream: int
    other: int


@dataclass(frozen=True)
class Sync:
    stream: int


streams = st.integers(1, 3)
programs = st.lists(
    st.one_of(
        st.builds(Op, st.integers(1, 30)),
        st.builds(Kernel, streams, st.integers(1, 60), st.booleans()),
        st.builds(Wait, streams, streams).filter(lambda w: w.stream != w.other),
        st.builds(Sync, streams),
    ),
    min_size=5,
    max_size=40,
)
PLAIN = [part for _ in range(5) for part in (Kernel(1, 3, False), Op(20))]
"""Launches onto an idle stream, from which the least that a launch takes is known."""


def simulated(
    program: Sequence[Op | Kernel | Wait | Sync],
    *,
    free: tuple[bool, ...] = (),
    recorded: bool = True,
) -> tuple[KinetoTrace, float]:
    """The run as a trace, and from its first kernel's start to the last one's end.

    `free` are the values of ``Kernel.comm`` whose kernels take no time.
    """
    t = KinetoTrace()
    now = 0.0
    ends: dict[int, float] = {}
    held: dict[int, float] = {}
    first, last = None, 0.0
    for part in program:
        if isinstance(part, Op):
            t.op("aten::op", at=now, dur=part.length)
            now += part.length
        elif isinstance(part, Kernel):
            length = 0 if part.comm in free else part.length
            begin = max(now + LAUNCH, ends.get(part.stream, 0), held.pop(part.stream, 0))
            ends[part.stream] = begin + length
            t.launch(NAMES[part.comm], at=now, runs=(begin, begin + length), stream=part.stream,
                     call_dur=CALL)  # fmt: skip
            now += CALL
            first = begin if first is None else first
            last = max(last, begin + length)
        elif isinstance(part, Wait):
            t.runtime("cudaEventRecord", at=now, dur=1)
            record = t.events[-1]["args"]["correlation"]
            t.runtime("cudaStreamWaitEvent", at=now + 1, dur=1)
            if recorded:
                t.event("Stream Wait Event", "cuda_sync", now + 1, 1, pid=0, tid=part.stream,
                        device=0, stream=part.stream, wait_on_stream=part.other,
                        correlation=t.events[-1]["args"]["correlation"],
                        wait_on_cuda_event_record_corr_id=record)  # fmt: skip
            held[part.stream] = max(held.get(part.stream, 0), ends.get(part.other, 0))
            now += 2
        else:
            until = max(now + 1, ends.get(part.stream, 0)) + 1
            t.runtime("cudaStreamSynchronize", at=now, dur=until - now)
            if recorded:
                t.event("Stream Sync", "cuda_sync", now, until - now, pid=0, tid=part.stream,
                        device=0, stream=part.stream,
                        correlation=t.events[-1]["args"]["correlation"])  # fmt: skip
            now = until
    assert first is not None
    return t, last - first


def path_of(t: KinetoTrace, folder: Path) -> FoundPath:
    return critical_path.analyze(read_trace(t.write(folder / "t.json")), CONFIG, 0).window


@settings(max_examples=150, deadline=None)
@given(program=programs)
@pytest.mark.parametrize(("kind", "comm"), [(PathClass.COMM, True), (PathClass.COMPUTE, False)])
def test_with_recorded_events_no_run_beats_the_bound_of_a_class(
    kind: PathClass, comm: bool, program: list[Op | Kernel | Wait | Sync],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    program = [*PLAIN, *program]
    t, length = simulated(program)
    path = path_of(t, tmp_path_factory.mktemp("bound"))
    _, without = simulated(program, free=(comm,))
    assert path.coverage == 1
    assert without >= length - path.by_class[kind] / 1e3


@settings(max_examples=150, deadline=None)
@given(program=programs)
def test_without_them_the_path_reaches_across_all_the_same(
    program: list[Op | Kernel | Wait | Sync], tmp_path_factory: pytest.TempPathFactory
) -> None:
    t, length = simulated([*PLAIN, *program], recorded=False)
    path = path_of(t, tmp_path_factory.mktemp("assumed"))
    assert path.coverage == 1
    assert sum(path.by_class) / 1e3 == length
