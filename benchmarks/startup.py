"""What the plugin costs a pytest run that does not use it: start-up with and without it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.interleaved import time_commands

ROUNDS = 15


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "pytest.ini").write_text("[pytest]\n")
        (here / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        base = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_nothing.py"]
        timings = time_commands(
            {"with the plugin": base, "without": [*base, "-p", "no:gpuperf"]},
            rounds=ROUNDS,
            cwd=here,
        )
    with_it, without = timings["with the plugin"], timings["without"]
    pairs = zip(with_it.cpu_s, without.cpu_s, strict=True)
    differences = sorted(a - b for a, b in pairs)
    print(f"start-up of pytest on one empty test, {ROUNDS} rounds in turn")
    print(f"{'':<18}{'wall':>9}{'CPU':>9}   (medians, ms)")
    for name, timing in timings.items():
        print(f"{name:<18}{timing.wall * 1e3:>9.0f}{timing.cpu * 1e3:>9.0f}")
    print(f"ratio of CPU time  {with_it.cpu / without.cpu:.3f}")
    print(
        f"added by us        {differences[len(differences) // 2] * 1e3:.1f} ms CPU a run, "
        f"median of pairs (range {differences[0] * 1e3:.1f} to {differences[-1] * 1e3:.1f})"
    )


if __name__ == "__main__":
    main()
