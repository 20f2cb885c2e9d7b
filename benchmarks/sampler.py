"""What the counter sampler costs: the same work with it and without it, in turn, in one run.

NVML is a shared object built from the tests' C source, so that the cost is ours and the binding's:
a driver adds its own time in calls during which the workload's thread runs on.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 7
SECONDS = 1.5
SOURCE = Path(__file__).resolve().parents[1] / "tests/plugin/recording/telemetry/fake_nvml.c"
SCENARIO = "\n".join(
    ["gpm_2 91", "gpm_3 40", "gpm_5 35", "gpm_10 50", "gpm_11 1", "gpm_12 2", "gpm_13 3",
     "gpm_60 1000", "gpm_61 1000", "reasons 4"]
)  # fmt: skip


def python_loop() -> None:
    """Work that holds the interpreter: the thread must wait for its turn."""
    sum(range(2000))


def native_call() -> None:
    """Work outside of the interpreter, as a launch or a wait for a GPU is."""
    hashlib.sha256(_BLOCK).digest()


_BLOCK = bytes(1 << 18)


def rate(work: Callable[[], None]) -> float:
    """Calls a second of `work`."""
    begin = time.perf_counter()
    calls = 0
    while (now := time.perf_counter()) - begin < SECONDS:
        work()
        calls += 1
    return calls / (now - begin)


def main() -> None:
    """Print the table."""
    import pynvml

    from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler
    from pytest_gpuperf.recording.telemetry.summary import telemetry_of

    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libnvidia-ml.so.1"
        build = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
        subprocess.run(build, check=True)
        scenario = Path(folder) / "scenario"
        scenario.write_text(SCENARIO)
        os.environ["FAKE_NVML"] = str(scenario)
        pynvml.nvmlLib = ctypes.CDLL(str(library))
        print(f"sampler on against off, {ROUNDS} rounds of {SECONDS} s in turn (medians)")
        print(f"{'work':<14}{'on / off':>10}{'off / off':>11}{'its CPU':>10}{'rate':>9}")
        for work in (python_loop, native_call):
            ratios, controls, costs, rates = [], [], [], []
            for index in range(ROUNDS):
                first = rate(work)
                with TelemetrySampler(["GPU-1"]) as sampler:
                    on = rate(work)
                last = rate(work)
                # What two runs without it differ by is what the machine adds to either.
                ratios.append(on / ((first + last) / 2))
                controls.append(last / first if index % 2 else first / last)
                seen = telemetry_of(sampler).values
                costs.append(seen["sampler_cost"]["value"])
                rates.append(seen["sampler_rate"]["value"])
            print(
                f"{work.__name__:<14}{statistics.median(ratios):>10.3f}"
                f"{statistics.median(controls):>11.3f}{statistics.median(costs):>10.2%}"
                f"{statistics.median(rates):>6.1f} Hz"
            )


if __name__ == "__main__":
    main()
