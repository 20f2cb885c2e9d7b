"""``--gpuperf-against`` from the outside: a user's repository, two revisions, real processes."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

import gpuperf_analyzers.regression  # noqa: F401 - numpy cannot be imported twice in a process

LIMIT_S = 90.0
HEARS_CTRL_C = """
import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
sys.exit(pytest.main(sys.argv[1:]))
"""
INI = """
[pytest]
addopts = -p no:randomly
gpuperf_warmup = 1ms
gpuperf_max_time = 30ms
gpuperf_device = cpu
"""
SHOP = """
import torch

def step(x):
    return torch.mm(x, x)
"""
TESTS = """
import pytest, torch
from shop import step

@pytest.mark.gpuperf(exact=["host_syncs"])
def test_step(gpuperf):
    gpuperf(step, torch.rand(8, 8))

@pytest.mark.gpuperf(exact=["host_syncs"])
def test_same(gpuperf):
    gpuperf(lambda: torch.ones(8) + 1)

@pytest.mark.gpuperf(exact=["host_syncs"])
def test_{name}(gpuperf):
    gpuperf(lambda: torch.ones(8) + 2)

def test_measures_nothing():
    raise AssertionError("only what measures is run")
"""


@pytest.fixture
def repository(pytester, tmp_path, monkeypatch):
    """A project in src layout that is found as an editable install is: by an entry of the path."""
    if find_spec("torch") is None:
        pytest.skip("no torch")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    top = pytester.path
    (top / "src" / "shop").mkdir(parents=True)
    (top / "src" / "shop" / "__init__.py").write_text(SHOP)
    (top / "tests").mkdir()
    (top / "tests" / "test_perf.py").write_text(TESTS.format(name="old"))
    (top / "pytest.ini").write_text(INI)
    (top / ".gitignore").write_text("__pycache__\n*.json\n")
    paths = [str(top / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in paths if p))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "200")
    git(top, "init", "-q")
    commit(top)
    return top


def git(top, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=top, check=True, capture_output=True, text=True
    )
    return done.stdout


def commit(top):
    git(top, "add", "-A")
    git(top, "commit", "-qm", "a state")


def left(top):
    worktrees = git(top, "worktree", "list").splitlines()[1:]
    folders = Path(os.environ["TMPDIR"]).iterdir()
    ours = [p.name for p in folders if p.name.startswith("gpuperf-") and "locks" not in p.name]
    return worktrees + ours


def test_an_added_sync_is_found_in_one_pair_and_nothing_is_left(repository, pytester):
    (repository / "src" / "shop" / "__init__.py").write_text(
        SHOP.replace("return torch.mm(x, x)", "y = torch.mm(x, x); y.sum().item(); return y")
    )
    (repository / "tests" / "test_perf.py").write_text(TESTS.format(name="new"))
    result = pytester.runpytest_subprocess(
        "--gpuperf-against=HEAD", "--gpuperf-json=r.json", "--gpuperf-markdown=r.md",
        "--junitxml=j.xml",
    )  # fmt: skip
    result.assert_outcomes(failed=1, passed=2, deselected=1)
    assert result.ret == 1
    out = result.stdout.str()
    assert "host syncs (scalar reads on a CPU) 1 > 0 in HEAD (" in out
    assert "aten::_local_scalar_dense" in out
    assert "NO-BASELINE exact host_syncs: this test is not in HEAD" in out
    assert "the working tree has changes that are in no commit: they are measured" in out
    assert "tests of HEAD" in out
    assert "tests/test_perf.py::test_old" in out
    assert "1 pair of processes" in out
    verdicts = {
        r["test"].rpartition("::")[2]: r["verdict"]
        for r in json.loads((repository / "r.json").read_text())["results"]
    }
    assert verdicts == {"test_step": "FAIL", "test_same": "PASS", "test_new": "NO-BASELINE"}
    assert "FAIL" in (repository / "r.md").read_text()
    assert 'name="gpuperf.verdict" value="FAIL"' in (repository / "j.xml").read_text()
    assert left(repository) == []
    tracked = git(repository, "status", "--porcelain", "--untracked-files=no").split()
    assert tracked == ["M", "src/shop/__init__.py", "M", "tests/test_perf.py"]


def test_a_revision_whose_code_does_not_import_is_one_line_a_test(repository, pytester):
    good = (repository / "src" / "shop" / "__init__.py").read_text()
    (repository / "src" / "shop" / "__init__.py").write_text("raise ImportError('broken then')")
    commit(repository)
    (repository / "src" / "shop" / "__init__.py").write_text(good)
    result = pytester.runpytest_subprocess("--gpuperf-against=HEAD")
    result.assert_outcomes(passed=3, deselected=1)
    assert result.stdout.str().count("NO-BASELINE") == 3
    assert "ImportError: broken then" in result.stdout.str()
    assert left(repository) == []


def test_a_revision_that_pytest_cannot_start_on_is_one_clear_line(repository, pytester):
    (repository / "conftest.py").write_text("raise RuntimeError('no such machine')")
    commit(repository)
    (repository / "conftest.py").unlink()
    result = pytester.runpytest_subprocess("--gpuperf-against=HEAD")
    assert result.ret == 4
    errors = [line for line in result.stderr.lines if line.startswith("ERROR")]
    assert len(errors) == 1
    assert "no such machine" in errors[0]
    assert "Traceback" not in result.stderr.str()
    assert left(repository) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gpuperf-against=nowhere"], "'nowhere' is no revision"),
        (["--gpuperf-against=HEAD", "--gpuperf-pairs=4"], "8 to 256 pairs"),
        (["--gpuperf-against=HEAD", "--gpuperf-pairs=x"], "not a whole number"),
        (["--gpuperf-against=HEAD", "--gpuperf-compare"], "another baseline"),
        (["--gpuperf-against=HEAD", "--gpuperf-disable"], "measures nothing"),
        (["--gpuperf-against=HEAD", "-n2"], "leave -n out"),
        (["--gpuperf-against="], "not a git revision"),
        (["--gpuperf-against=HEAD", "--gpuperf-against-env=/nowhere"], "neither a Python"),
        (["--gpuperf-against=HEAD", "--gpuperf-against-setup=false"], "ended with 1"),
        (["--gpuperf-against=HEAD", "--gpuperf-against-setup='"], "No closing quotation"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_one_line(repository, pytester, options, said):
    # Nothing is measured, so that no torch is needed, nor a process of its own.
    (repository / "tests" / "test_perf.py").write_text("def test_a(gpuperf): ...")
    result = pytester.runpytest_inprocess(*options)
    assert result.ret == 4
    assert said in result.stderr.str()
    assert left(repository) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_leaves_no_process_and_no_worktree(repository, number):
    slow = TESTS.format(name="old") + "\n\ndef test_slow(gpuperf):\n    import time\n"
    slow += f"    open('started', 'w').close()\n    time.sleep({10 * LIMIT_S})\n"
    (repository / "tests" / "test_perf.py").write_text(slow)
    command = [sys.executable, "-c", HEARS_CTRL_C, "--gpuperf-against=HEAD", "-k", "slow"]
    running = subprocess.Popen(command, cwd=repository, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + LIMIT_S
        while not (repository / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (repository / "started").exists()
        running.send_signal(number)
        assert running.wait(LIMIT_S) == (2 if number is not signal.SIGKILL else -9)
    finally:
        running.kill()
        running.wait()
    deadline = time.monotonic() + LIMIT_S
    while _mentioning(repository) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _mentioning(repository) == []
    if number is signal.SIGKILL:
        from pytest_gpuperf.baselines.against.worktree import remove_stale

        assert len(remove_stale(repository)) == 1
        assert git(repository, "worktree", "list").count("\n") == 1
    else:
        assert left(repository) == []


def _mentioning(top):
    """Processes that run in the repository or in a worktree of ours."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                where = str((folder / "cwd").readlink())
            except OSError:
                continue
            if where.startswith((str(top), f"{os.environ['TMPDIR']}/gpuperf-")):
                found.append((folder.name, where))
    return [f for f in found if int(f[0]) != os.getpid()]
