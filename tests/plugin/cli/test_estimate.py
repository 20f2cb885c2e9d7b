"""``gpuperf estimate`` as a user runs it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from pytest_gpuperf.cli import main

H100 = ("--gpu", "NVIDIA H100 80GB HBM3", "--network", "50GB/s")


def document(capsys: pytest.CaptureFixture[str], *args: str) -> dict:
    assert main(["estimate", *args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_worked_figure_by_command(capsys):
    """140 + 140 + 840 + 730 GB: 24 cards of 80 GB or 78 of 24."""
    args = ("--model", "llama-2-70b", "--sequence", "4096", "--batch", "8", "--params", "70e9")
    assert main(["estimate", *args]) == 0
    shown = capsys.readouterr().out
    assert "1,850 GB: 24 cards of 80 GB or 78 cards of 24 GB" in shown
    found = document(capsys, *args)["models"][0]
    assert [round(t["value"] / 1e9) for t in found["memory"]] == [140, 140, 840, 730]
    assert all(t["formula"] and t["source"] for t in found["memory"])


def test_macs_are_half_of_flops(capsys):
    args = ("--model", "gpt2", "--batch", "1")
    flops = document(capsys, *args)["models"][0]["flops"][0]
    macs = document(capsys, *args, "--macs")["models"][0]["flops"][0]
    assert (flops["unit"], macs["unit"]) == ("FLOP", "MAC")
    assert flops["value"] == 2 * macs["value"] == 6 * 124_439_808 * 1024


def test_a_search_a_layout_and_its_explanation(capsys):
    args = ("--model", "llama-2-70b", *H100, "--gpus", "64", "--batch", "512",
            "--sequence", "4096")  # fmt: skip
    found = document(capsys, *args, "--explain", "2", "--top", "3")
    assert len(found["layouts"]) == 3
    assert [s["title"][:2] for s in found["explained"]][:3] == ["1.", "2.", "3."]
    assert found["rules"]
    best = found["layouts"][0]
    ways = [f"--{w}={best[w]}" for w in ("tp", "pp", "cp", "ep", "dp", "zero", "interleave")]
    split = [] if best["sequence_parallel"] else ["--no-sequence-parallel"]
    ways += [f"--micro-batch={best['micro_batch']}", f"--recompute={best['recompute']}", *split]
    again = document(capsys, *args, *ways)
    assert again["layouts"][0]["step_us"] == best["step_us"]
    assert again["layouts"][0]["memory_bytes"] == best["memory_bytes"]
    assert main(["estimate", *args, "--explain"]) == 0
    assert "MFU" in capsys.readouterr().out


def test_a_table_of_layouts_is_read_in_80_columns(capsys, monkeypatch):
    """What all rows share is said once; no value and no word of a title is broken."""
    monkeypatch.setenv("COLUMNS", "80")
    args = ["estimate", "--model", "llama-2-70b", *H100, "--gpus", "64", "--batch", "512",
            "--sequence", "4096"]  # fmt: skip
    assert main(args) == 0
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80
    (title,) = (line for line in shown if "GB/GPU" in line)
    assert title.split() == ["PP", "DP", "ZeRO", "accum", "chunks", "SP", "step", "MFU",
                             "GB/GPU", "binds"]  # fmt: skip
    assert "All of these have TP 2, CP 2, EP 1, micro 1, recompute selective." in shown


def test_gpus_that_do_not_divide_are_not_told_to_be_too_few(capsys):
    args = ["estimate", "--model", "gpt2", *H100, "--gpus", "100000", "--batch", "7"]
    assert main(args) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "None to try: 100000 GPUs and 7 samples do not divide into 12 heads" in shown


def test_a_search_as_csv(capsys):
    args = ["estimate", "--model", "llama-3-8b", *H100, "--gpus", "8", "--batch", "64", "--csv"]
    assert main(args) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    steps = [float(row["step_us"]) for row in rows]
    assert len(rows) > 100
    assert steps == sorted(steps)


def test_a_heat_map(capsys):
    args = ("--model", "llama-3-8b", "--model", "llama-2-70b", "--nodes", "1,8", *H100,
            "--batch", "64", "--sequence", "4096")  # fmt: skip
    found = document(capsys, *args)["heat_map"]
    assert found["fits"] == [[True, True], [False, True]]
    assert main(["estimate", *args]) == 0
    assert "does not fit" in capsys.readouterr().out


def test_an_unknown_gpu(capsys):
    args = ("--model", "llama-3-8b", "--gpu", "Acme X1", "--gpus", "8", "--batch", "8")
    assert main(["estimate", *args]) == 2
    assert "give --gpu-memory" in capsys.readouterr().err
    found = document(capsys, *args, "--gpu-memory", "80GB")
    assert found["layouts"][0]["mfu"] is None
    assert "--tflops" in found["reason"]
    known = document(capsys, *args, "--gpu-memory", "80GB", "--tflops", "100", "--link", "50GB/s")
    assert known["layouts"][0]["mfu"] > 0


def test_a_config_a_chain_and_a_module(capsys, tmp_path):
    config = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "vocab_size": 100, "max_position_embeddings": 32, "hidden_act": "silu"}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = document(capsys, "--config", str(tmp_path / "config.json"))["models"][0]
    assert found["parameters"] == 2 * (4 * 64**2 + 3 * 64 * 256 + 128) + 2 * 100 * 64 + 64
    chain = 'input = [1, 3, 8, 8]\n[[layer]]\nkind = "conv2d"\nout = 4\nkernel = 3\n'
    (tmp_path / "net.toml").write_text(chain)
    net = document(capsys, "--layers", str(tmp_path / "net.toml"))
    assert net["layers"][0]["output"] == [1, 4, 6, 6]
    assert net["parameters"] == 112
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make():\n"
        "    return torch.nn.Linear(10**6, 10**6, bias=False), torch.empty(2, 10**6)\n"
    )
    spec = str(tmp_path / "spec.json")
    step = document(capsys, "--module", f"{tmp_path / 'mine.py'}:make", "--write-spec", spec)
    assert step["parameters"] == 10**12  # four terabytes, and nothing was allocated
    assert document(capsys, "--spec", spec) == step
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "__pycache__") == [
        "config.json", "mine.py", "net.toml", "spec.json",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "say what"),
        (["--model", "lama-3"], "is unknown"),
        (["--config", "absent.json"], "absent.json"),
        (["--layers", "absent.toml"], "absent.toml"),
        (["--module", "absent.py:make"], "no such file"),
        (["--module", "absent"], "FILE.py:FUNCTION"),
        (["--model", "gpt2", "--optimizer", "magic"], "magic"),
        (["--model", "gpt2", "--precision", "int1"], "int1"),
        (["--model", "gpt2", "--tp", "5"], "does not divide so"),
        (["--model", "gpt2", "--gpus", "8", "--tp", "3", "--dp", "2"], "not 8"),
        (["--model", "gpt2", "--gpus", "8", "--gpu", "H100", "--batch", "8"], "say which"),
        (
            ["--model", "gpt2", "--gpus", "2000000", "--gpu-memory", "1GB", "--batch", "8"],
            "1,000,000",
        ),
        (["--model", "gpt2", "--gpus", "8", "--gpu-memory", "1GB"], "needs --batch"),
    ],
)
def test_what_cannot_be_estimated_is_one_line(capsys, args, words):
    assert main(["estimate", *args]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", '{"hidden_size": 1e999}', "[" * 5000])
def test_a_damaged_config_is_one_line(capsys, tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    assert main(["estimate", "--config", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
