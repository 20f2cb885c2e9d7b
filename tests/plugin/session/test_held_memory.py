"""Memory of earlier tests on the GPU, before a test's own fixtures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.session.held_memory import HELD, held_bytes, held_notes

torch = pytest.importorskip("torch")


def test_memory_of_every_gpu_adds_up_once_cuda_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {0: 3 * 2**20, 1: 2**19}
    monkeypatch.setattr(torch.cuda, "memory_allocated", held.__getitem__)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert held_bytes() == 0  # asking would start CUDA
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert held_bytes() == 3 * 2**20 + 2**19


def test_a_mebibyte_is_told_and_less_is_not() -> None:
    def noted(held: int) -> tuple[str, ...]:
        stash = pytest.Stash()
        stash[HELD] = held
        return held_notes(SimpleNamespace(stash=stash))  # type: ignore[arg-type]

    assert noted(2**20 - 1) == ()
    (note,) = noted(3 * 2**19)
    assert note.startswith("1.5 MiB were on the GPU before this test")


def test_the_note_stands_in_the_record_of_the_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(
        """
        import pytest_gpuperf.plugin as plugin
        plugin.held_bytes = lambda: 5 * 2**20
        """
    )
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.gpuperf(max_step_time="60s")
        def test_step(gpuperf):
            gpuperf(lambda: None)
        """
    )
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--gpuperf-report", "--gpuperf-device=cpu",
        "-o", "gpuperf_warmup=10ms", "-o", "gpuperf_max_time=20ms",
    )  # fmt: skip
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*5.0 MiB were on the GPU before this test*"])
