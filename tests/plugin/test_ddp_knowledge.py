"""What ranks know as a single process does: formulas, the CPU's peak, when to stop."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from gpuperf_analyzers.registry import load_config, plugin_manager
from pytest_gpuperf.recording import Options, cpu_peak
from pytest_gpuperf.session.ddp import measure_ddp
from pytest_gpuperf.session.ddp_plan import threads_per_rank
from pytest_gpuperf.session.rank_config import modules_payload, rank_config

KNOWLEDGE = """
import gzip
from gpuperf_analyzers.hookspecs import FlopFormula, hookimpl

@hookimpl
def gpuperf_flop_formulas():
    return [FlopFormula("gpuperf_ranks::scale", lambda call: 3 * call.dims[0][0])]

def rank_1_wants_8_steps(path, config):
    return "rank1" not in path.name or b"ProfilerStep#8" in gzip.decompress(path.read_bytes())
"""


def make_step(rank, world_size):
    import torch

    @torch.library.custom_op("gpuperf_ranks::scale", mutates_args=())
    def scale(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    a, vector = torch.randn(16, 16), torch.randn(1000)

    def step():
        a @ a
        scale(vector)

    return step


@pytest.fixture
def knowledge(tmp_path, monkeypatch):
    """A module beside the tests that has a hook, importable here and in the ranks."""
    folder = tmp_path / "beside"
    folder.mkdir()
    (folder / "ranks_knowledge.py").write_text(KNOWLEDGE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    import ranks_knowledge

    yield ranks_knowledge
    monkeypatch.delitem(__import__("sys").modules, "ranks_knowledge")


def test_every_rank_knows_the_formulas_and_the_peak_and_all_profile_as_long_as_one_wants(
    tmp_path, monkeypatch, knowledge
):
    cache = tmp_path / "cache"
    cache.mkdir()
    threads = threads_per_rank(2)
    peaks = {cpu_peak.machine_key(threads): {"fp32": 0.125}}
    (cache / "cpu-peaks.json").write_text(json.dumps(peaks))
    monkeypatch.setenv(cpu_peak.CACHE_VARIABLE, str(cache))
    outcome = measure_ddp(
        make_step,
        2,
        options=Options(warmup_s=0.02, max_time_s=30.0, max_samples=10, steps=4),
        device="cpu",
        trace_dir=tmp_path / "traces",
        stem="ranks",
        timeout_s=60.0,
        enough=knowledge.rank_1_wants_8_steps,
        config=load_config(plugin_manager(knowledge)),
    )
    assert [dict(b.flops_by_op) for b in outcome.blocks] == [
        {"aten::mm": 2 * 16**3, "gpuperf_ranks::scale": 3 * 1000}
    ] * 2
    assert [dict(b.peak_tflops) for b in outcome.blocks] == [{"fp32": 0.125}] * 2
    assert [b.steps for b in outcome.blocks] == [8, 8]
    assert outcome.notes == ()


def test_a_module_that_cannot_be_loaded_in_a_rank_is_said_and_done_without(tmp_path, knowledge):
    payload = modules_payload(load_config(plugin_manager(knowledge)))
    assert [Path(m["path"]).name for m in payload] == ["ranks_knowledge.py"]
    found, notes = rank_config(payload)
    assert "gpuperf_ranks::scale" in found.flop_formulas
    assert notes == ()
    broken = tmp_path / "conftest.py"
    broken.write_text("import no_such_module_anywhere\n")
    payload = [{**payload[0], "path": str(broken), "name": "conftest"}]
    found, (note,) = rank_config(payload)
    assert "gpuperf_ranks::scale" not in found.flop_formulas
    assert "aten::mm" in found.flop_formulas
    assert str(broken) in note
    assert "no_such_module_anywhere" in note


def test_installed_plugins_and_objects_are_not_sent():
    assert modules_payload(load_config()) == []
    assert modules_payload(None) == []
