"""Deterministic regressions against exact limits: found how often, with the right op named.

Each is put into a small step, measured, and judged against a baseline of the step without it; so
is the step without it, which must not be red. Counts need no statistics, so that the right answer
is 100 of 100 found, with the op named, and no false one.

    python -m benchmarks.deterministic [REPEATS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from gpuperf_analyzers.analysis import analyze
from gpuperf_analyzers.limits import parse_limits
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace import read_trace
from pytest_gpuperf.baselines.comparison import StoredBaselines
from pytest_gpuperf.baselines.observation import Observation
from pytest_gpuperf.baselines.store import Store
from pytest_gpuperf.recording import Options, record
from pytest_gpuperf.session.baseline import Compared, Observed

Step = Callable[[], object]

CLEAN = 4
"""One measurement without the regression for so many with it."""
EXACT = (
    "kernel_launches", "host_syncs", "host_to_device", "flops", "collectives", "collective_bytes",
    "allocations", "peak_memory_growth",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One regression.

    Attributes
    ----------
    name
        What was done to the step.
    make
        ``make(worse)`` gives the step, with the regression in it or without.
    metric
        The count that must be found worse.
    named
        The op that the failure text must name.
    """

    name: str
    make: Callable[[bool], Step]
    metric: str
    named: str


def _item(worse: bool) -> Step:
    x = torch.randn(32, 32)

    def step() -> object:
        loss = (x @ x).sum()
        if worse:
            loss.item()
        return loss

    return step


def _copy(worse: bool) -> Step:
    x = torch.randn(32, 32)

    def step() -> object:
        y = x @ x
        return y.double() if worse else y

    return step


def _all_reduce(worse: bool) -> Step:
    gradient = torch.randn(256)

    def step() -> object:
        dist.all_reduce(gradient)
        if worse:
            dist.all_reduce(gradient)
        return gradient.mul_(0.5)

    return step


def _gelu_by_hand(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def _fusion(worse: bool) -> Step:
    x = torch.randn(64, 64)
    activation = _gelu_by_hand if worse else functional.gelu
    return lambda: activation(x @ x)


def _flops(worse: bool) -> Step:
    a, b = torch.randn(64, 101 if worse else 100), torch.randn(101 if worse else 100, 64)
    return lambda: a @ b


CASES = (
    Case("an added .item()", _item, "host_syncs", "aten::item"),
    Case("an added copy", _copy, "host_to_device", "aten::copy_"),
    Case("a doubled all-reduce", _all_reduce, "collectives", "gloo:all_reduce"),
    Case("a lost fusion (GELU by hand)", _fusion, "kernel_launches", "aten::erf"),
    Case("1% more FLOP", _flops, "flops", "aten::mm"),
)


def compiled_case() -> Case:
    """A fusion that torch.compile makes, lost by a graph break: one region becomes two."""

    def make(worse: bool) -> Step:
        torch._dynamo.reset()  # noqa: SLF001 - each measurement compiles anew
        x = torch.randn(64, 64)

        def chain() -> torch.Tensor:
            y = torch.relu(x * 2 + 1)
            if worse:
                torch._dynamo.graph_break()  # noqa: SLF001 - torch's own way to make one
            return torch.tanh(y) * 3

        return torch.compile(chain)

    return Case(
        "a lost fusion (torch.compile, graph break)", make, "graph_breaks", "Torch-Compiled Region"
    )


@contextmanager
def _alone() -> Iterator[None]:
    """A process group of one rank: its collectives are recorded as any."""
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


def observed(step: Step, folder: Path, config: Any, exact: tuple[str, ...] = EXACT) -> Observed:
    """One measurement of `step`, short: counts need no samples."""
    options = Options(warmup_s=0.001, max_time_s=0.002, steps=3, measure_peak=False)
    recorded = record(
        step, device=torch.device("cpu"), trace_path=folder / "t.pt.trace.json", options=options,
        config=config,
    )  # fmt: skip
    trace = read_trace(recorded.trace_path)
    limits = parse_limits({"exact": list(exact)}, config.metrics)
    return Observed(
        "bench.py::test_step", "", analyze(trace, config), (recorded.block,), (trace,), config,
        limits,
    )  # fmt: skip


def found(compared: Compared, case: Case) -> bool:
    """Whether the regression is FAIL, and its op is named in the line of its metric."""
    red = {j.metric for j in compared.judgements if j.verdict == "FAIL"}
    # A graph break is no op: the op calls that it adds are what names it.
    told = "kernel launches" if case.metric == "graph_breaks" else case.metric.replace("_", " ")
    line = next((t for t in compared.explained if t.startswith(f"{told}: ")), "")
    return case.metric in red and case.named in line


def run_case(case: Case, repeats: int, config: Any) -> tuple[int, int, float]:
    """How often the regression was found, how often its absence was called red, and seconds."""
    exact = (*EXACT, "graph_breaks") if case.metric == "graph_breaks" else EXACT
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = Store(folder / "gpuperf-baselines")
        before = observed(case.make(False), folder, config, exact)
        saved = StoredBaselines(store, "default", observe=True).compared(before).observation
        if saved is None:
            raise RuntimeError("the baseline was not observed")
        store.save([Observation.from_json(saved)], name="default")
        baselines = StoredBaselines(store, "default")
        hits = alarms = 0
        for _ in range(repeats):
            worse = baselines.compared(observed(case.make(True), folder, config, exact))
            hits += found(worse, case)
        for _ in range(repeats // CLEAN):
            same = baselines.compared(observed(case.make(False), folder, config, exact))
            alarms += any(j.verdict.fails() for j in same.judgements)
    return hits, alarms, time.perf_counter() - begin


def main(repeats: int) -> None:
    """Print a row a case."""
    torch.set_num_threads(1)
    config = load_config()
    print(f"{'regression':<44} {'found':>10} {'false':>10} {'seconds':>8}")
    cases = [*CASES, compiled_case()]
    for case in cases:
        around = _alone() if case.metric == "collectives" else nullcontext()
        count = max(1, repeats // 10) if case.metric == "graph_breaks" else repeats
        with around:
            hits, alarms, seconds = run_case(case, count, config)
        clean = count // CLEAN
        print(f"{case.name:<44} {hits:>4} of {count:<3} {alarms:>4} of {clean:<3} {seconds:>7.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100)
