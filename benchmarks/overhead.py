"""What measuring costs, side by side in one run: the loop, the passes, and pytest's start-up.

Start-up is that of pytest on one empty test: without any of them, with this plugin, and with
pytest-benchmark and gpucheck instead, each in a virtual environment made for it on top of this
one's packages. Where pip cannot install one, the row says why.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.interleaved import Timing, time_commands

ROUNDS = 7
STARTUP_ROUNDS = 11
LOOP_S = 0.3
TARGET_MS = 30.0
PEERS = ("pytest-benchmark", "gpucheck")
_INSTALL_S = 120


def bare_us(step: Callable[[], object]) -> float:
    """Time of a call in a loop that does nothing else, µs; the median of ten loops."""
    calls, times = 1, []
    while True:  # until a loop is long enough for the clock
        begin = time.perf_counter()
        for _ in range(calls):
            step()
        if time.perf_counter() - begin > LOOP_S / 20:
            break
        calls *= 2
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(calls):
            step()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(times)


def loops() -> None:
    """What the fixture gives for a call, over what a bare loop gives, in turn."""
    import torch

    from pytest_gpuperf.recording import Options, record

    a, b, little = torch.randn(512, 512), torch.randn(512, 512), torch.randn(8)
    options = Options(warmup_s=0.1, max_time_s=LOOP_S, measure_peak=False)
    print(f"a call as measured, over a bare loop's, {ROUNDS} rounds in turn (medians)")
    print(f"{'workload':<16}{'bare us':>10}{'ours us':>10}{'ours / bare':>13}"
          f"{'profiled / ours':>17}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        for name, step in (
            ("nothing", lambda: None),
            ("8 numbers", partial(torch.neg, little)),
            ("512 x 512 mm", partial(torch.mm, a, b)),
        ):
            bare, ours, profiled = [], [], []
            for index in range(ROUNDS):
                if index % 2:
                    bare.append(bare_us(step))
                recorded = record(
                    step, device=torch.device("cpu"), trace_path=path, options=options
                )
                ours.append(statistics.median(recorded.block.samples_us))
                profiled.append(_profiled_us(path))
                if not index % 2:
                    bare.append(bare_us(step))
            ratio = statistics.median(o / b for o, b in zip(ours, bare, strict=True))
            under = statistics.median(p / o for p, o in zip(profiled, ours, strict=True))
            print(f"{name:<16}{statistics.median(bare):>10.2f}{statistics.median(ours):>10.2f}"
                  f"{ratio:>13.3f}{under:>17.1f}")  # fmt: skip


def _profiled_us(path: Path) -> float:
    """Median length of the step spans, which the profiler recorded after the samples."""
    events = json.loads(path.read_text())["traceEvents"]
    spans = [e["dur"] for e in events if str(e.get("name")).startswith("ProfilerStep#")
             and e.get("ph") == "X"]  # fmt: skip
    return statistics.median(spans)


def startup() -> None:
    """Start-up of pytest with each plugin, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "pytest.ini").write_text("[pytest]\n")
        (here / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        asked = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_nothing.py"]
        without = "-p", "no:gpuperf"
        commands = {
            "without": [sys.executable, *asked, *without],
            "pytest-gpuperf": [sys.executable, *asked],
        }
        missing = {}
        for peer in PEERS:
            python, why = _environment_with(peer, here / f"venv-{peer}")
            if why:
                missing[peer] = why
                continue
            bare = f"without, {peer}'s"
            off = "no:benchmark" if peer == "pytest-benchmark" else f"no:{peer}"
            commands[bare] = [python, *asked, *without, "-p", off]
            commands[peer] = [python, *asked, *without]
        timings = time_commands(commands, rounds=STARTUP_ROUNDS, cwd=here)
    print(f"start-up of pytest on one empty test, {STARTUP_ROUNDS} rounds in turn (medians, ms)")
    print(f"{'':<28}{'wall':>8}{'CPU':>8}{'added CPU':>11}")
    for name, timing in timings.items():
        base = timings.get(f"without, {name}'s", timings["without"])
        added = "" if name.startswith("without") else f"{_added_ms(timing, base):>11.1f}"
        print(f"{name:<28}{timing.wall * 1e3:>8.0f}{timing.cpu * 1e3:>8.0f}{added}")
    for peer, why in missing.items():
        print(f"{peer:<28}skipped: {why}")
    ours = _added_ms(timings["pytest-gpuperf"], timings["without"])
    print(f"added by us: {ours:.1f} ms of CPU, target below {TARGET_MS:.0f}: "
          f"{'met' if ours < TARGET_MS else 'MISSED'}")  # fmt: skip


def _added_ms(timing: Timing, base: Timing) -> float:
    """CPU that `timing` takes beyond `base`, ms: the median over rounds."""
    pairs = zip(timing.cpu_s, base.cpu_s, strict=True)
    return statistics.median(with_it - without for with_it, without in pairs) * 1e3


def _environment_with(package: str, folder: Path) -> tuple[str, str]:
    """An interpreter that has `package` on top of what this one has; or why there is none."""
    python = folder / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
        site = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})["purelib"]
        ours = sysconfig.get_paths()["purelib"]
        (Path(site) / "of_the_benchmark.pth").write_text(
            f"import site; site.addsitedir({ours!r})\n"
        )
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run(
            [*install, package], check=True, capture_output=True, text=True, timeout=_INSTALL_S
        )
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr or error).strip().splitlines()
        return "", f"pip install {package} failed: {lines[-1] if lines else error}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"pip install {package} failed: {error}"
    return str(python), ""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("loops", "startup"))
    only = parser.parse_args().only
    if only != "startup":
        loops()
        print()
    if only != "loops":
        startup()


if __name__ == "__main__":
    main()
