"""torch's own counts: graph breaks and recompilations by hand, and the allocator's retries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpuperf.recording import Options, record
from pytest_gpuperf.recording.torch_counts import NOT_COMPILED, TorchCounts, counting

torch = pytest.importorskip("torch")
torch._dynamo.reset()  # loads the compiler before anything counts

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def with_two_breaks(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch._dynamo.graph_break()
    y = y + 1
    torch._dynamo.graph_break()
    return y * y


def test_two_graph_breaks_are_counted_once_each() -> None:
    compiled = torch.compile(with_two_breaks, backend="eager")
    counts = counting(CPU)
    compiled(torch.ones(3))
    compiled(torch.ones(3))  # compiled already: breaks no more often
    found = counts()
    assert found.counted == {"graph_breaks": 2, "recompiles": 0}
    assert found.absent == {"allocator_retries": "a CPU has no caching allocator"}


def test_each_new_value_of_a_static_argument_compiles_again() -> None:
    compiled = torch.compile(lambda x, n: x * n, backend="eager", dynamic=False)
    counts = counting(CPU)
    for n in (2, 3, 4, 3):  # 2 compiles; 3 and 4 compile again; 3 is known by then
        compiled(torch.ones(3), n)
    assert counts().counted == {"graph_breaks": 0, "recompiles": 2}


def test_breaks_of_what_was_compiled_before_are_not_known() -> None:
    compiled = torch.compile(with_two_breaks, backend="eager")
    compiled(torch.ones(3))
    counts = counting(CPU)
    compiled(torch.ones(3))
    found = counts()
    assert found.counted == {"recompiles": 0}
    assert found.absent["graph_breaks"] == NOT_COMPILED


def test_a_reset_compiler_leaves_no_count() -> None:
    compiled = torch.compile(with_two_breaks, backend="eager")
    compiled(torch.ones(3))
    counts = counting(CPU)
    torch._dynamo.reset()
    assert "recompiles" not in counts().counted


def test_the_allocators_retries_are_those_since_counting_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = iter([{"num_alloc_retries": 5}, {"num_alloc_retries": 7}])
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda _: next(told))
    assert counting(GPU)().counted["allocator_retries"] == 2


def test_parts_of_a_measurement_add_up_and_an_unknown_part_makes_the_whole_unknown() -> None:
    first = TorchCounts({"graph_breaks": 2, "recompiles": 0})
    later = TorchCounts({"recompiles": 1}, {"graph_breaks": NOT_COMPILED})
    assert first + later == TorchCounts({"graph_breaks": 2, "recompiles": 1})
    lost = TorchCounts(absent={"graph_breaks": "lost", "recompiles": "lost"})
    assert first + lost == lost


def test_a_recording_counts_breaks_of_its_first_call_and_not_its_own_doing(
    tmp_path: Path,
) -> None:
    compiled, x = torch.compile(with_two_breaks, backend="eager"), torch.ones(3)
    options = Options(0.02, 0.05, measure_peak=False)
    block = record(
        lambda: compiled(x), device=CPU, trace_path=tmp_path / "t.json", options=options
    ).block
    assert block.torch_counts == {"graph_breaks": 2, "recompiles": 0}


def test_counting_does_not_load_the_compiler() -> None:
    code = (
        "import sys, torch\n"
        "from pytest_gpuperf.recording.torch_counts import counting\n"
        "before = 'torch._dynamo' in sys.modules\n"
        "counts = counting(torch.device('cpu'))()\n"
        "assert before == ('torch._dynamo' in sys.modules)\n"
        "assert counts.counted == {'recompiles': 0}, counts\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
