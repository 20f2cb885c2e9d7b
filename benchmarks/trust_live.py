"""Live comparisons for docs/trust.md, as a user makes them: the command, a repository, four tests.

    python -m benchmarks.trust_live SLOWDOWN RUNS [OUT.jsonl]

Each run compares the working tree, SLOWDOWN (0.1 is 10%) slower by repeating more of the same,
with its last commit. A line a test is printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = '''\
"""Four small workloads: training step, matmul, chain of short ops, memory traffic."""

import pytest
import torch

torch.set_num_threads(1)
SLOWER = 0.0
pytestmark = pytest.mark.gpuperf(max_regression="3%", warmup="0.5s", max_time="1.2s", steps=3)
TIMES = 20


def repeated(call, plain):
    """`call` several times, and more of it where a slowdown is to be injected."""
    def run():
        for _ in range(plain + round(plain * SLOWER)):
            call()
    return run


def test_training_step(gpuperf):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)
    )
    batch = torch.randn(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()

    gpuperf(repeated(step, TIMES // 2))


def test_matmul(gpuperf):
    a = torch.randn(128, 128)
    gpuperf(repeated(lambda: torch.mm(a, a), TIMES))


def test_short_ops(gpuperf):
    x = torch.randn(64)
    gpuperf(repeated(lambda: x + 1.0, 10 * TIMES))


def test_memory(gpuperf):
    x, y = torch.randn(1 << 18), torch.randn(1 << 18)
    gpuperf(repeated(lambda: torch.add(x, y, out=y), TIMES))
'''


def make_project(folder: Path) -> Path:
    """A git repository with one commit of the tests above; `folder` is made."""
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "test_trust.py").write_text(TESTS, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


def main(slowdown: float, runs: int, out: Path | None) -> None:
    for number in range(runs):
        with tempfile.TemporaryDirectory() as name:
            project = make_project(Path(name).resolve() / "project")
            tests = project / "tests" / "test_trust.py"
            tests.write_text(TESTS.replace("SLOWER = 0.0", f"SLOWER = {slowdown}"), "utf-8")
            report = Path(name) / "report.json"
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "--gpuperf-against=HEAD",
                 f"--gpuperf-json={report}", "-p", "no:cacheprovider"],
                cwd=project, capture_output=True, text=True, check=False,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            if not report.is_file():
                print(done.stdout[-2000:], done.stderr[-2000:])
                continue
            for result in json.loads(report.read_text())["results"]:
                (limit,) = result["limits"]
                line = {"run": number, "slowdown": slowdown, "test": result["test"],
                        "verdict": result["verdict"], "change": limit["value"],
                        "interval": limit["interval"],
                        "pairs": result["against"]["metrics"]["step_time"]["pairs"]}  # fmt: skip
                print({**line, "pairs": len(line["pairs"])}, flush=True)
                if out is not None:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
