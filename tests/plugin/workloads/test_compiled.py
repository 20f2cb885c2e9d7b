"""Forms that ``torch.compile`` makes: the same results, and fewer passes over memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_gpuperf import ratio, workloads

torch = pytest.importorskip("torch")

needs_compiler = pytest.mark.skipif(
    not torch.cuda.is_available() and shutil.which("g++") is None,
    reason="torch.compile needs a C++ compiler on a CPU, and there is no g++",
)


@needs_compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler imports torch.jit
def test_the_compiled_forms_are_right_and_the_fused_chain_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert workloads.elementwise(3000, form="compiled").check("cpu") <= 1
    n = 1 << 18
    fused, unfused = (workloads.pointwise_chain(n, links=8, fused=f) for f in (True, False))
    # Eight passes over memory against one: at least half as fast again, wherever the data lies.
    found = ratio(
        fused, unfused, min_speedup=1.5, device="cpu", warmup="20ms", max_time="300ms", steps=1
    )
    assert found.verdict == "PASS", found["speedup"]
    assert any("1 passes over memory move" in note for note in found.notes)


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(workloads.UnavailableError, match=r"needs a C\+\+ compiler on a CPU"):
        workloads.elementwise(10, form="compiled").on("cpu")
