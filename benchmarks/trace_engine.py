"""The trace engine against its floor, ``orjson.loads`` and Holistic Trace Analysis.

::

    python -m benchmarks.trace_engine --trace TRACE.json.gz --peers PYTHON --work FOLDER

`TRACE` is a real trace with NCCL kernels and shapes, which is repeated to 10 MB … 1 GB. `PYTHON`
is an interpreter with traceinsight and orjson; without it the peers are left out. Everything is
timed in fresh processes in alternating order; the table has medians. ``--markdown FILE`` puts it
between the markers in FILE.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.long_traces import pack, repeat

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"10 MB": 10, "50 MB": 50, "200 MB": 200, "1 GB": 1000}
RANKS = 64
PROCESSES = min(os.cpu_count() or 1, 4)
"""What `gpuperf analyze` takes for one long trace."""
BEGIN, END = "<!-- trace_engine: begin -->", "<!-- trace_engine: end -->"
Result = dict[str, float]


def make(trace: Path, folder: Path) -> dict[str, Path]:
    """The plain and packed traces of each size, made where they are not there yet."""
    made: dict[str, Path] = {}
    for name, megabytes in SIZES.items():
        plain = folder / f"{megabytes}.json"
        packed = folder / f"{megabytes}.json.gz"
        if not packed.exists():
            repeat(trace, plain, megabytes * 1_000_000)
            pack(plain, packed)
        made[f"{name} plain"], made[f"{name} gz"] = plain, packed
    ranks = folder / "ranks"
    if not ranks.is_dir():
        ranks.mkdir()
        for rank in range(RANKS):
            (ranks / f"rank{rank}.json.gz").symlink_to(made["50 MB gz"])
    made["ranks"] = ranks
    return made


def run(command: Sequence[str], env: Mapping[str, str]) -> Result:
    """One measurement in a fresh process."""
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    result: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def measure(
    commands: Mapping[str, Sequence[str]], rounds: int, env: Mapping[str, str]
) -> dict[str, Result]:
    """Medians of `rounds` rounds of all commands in alternating order."""
    seen: dict[str, list[Result]] = {name: [] for name in commands}
    for index in range(rounds):
        for name in list(commands)[:: 1 if index % 2 else -1]:
            seen[name].append(run(commands[name], env))
            print(f"  round {index + 1}/{rounds} {name}: {seen[name][-1]}", file=sys.stderr)
    return {
        name: {key: statistics.median(r[key] for r in results) for key in results[0]}
        for name, results in seen.items()
    }


def child(what: str, *arguments: object) -> list[str]:
    """The command of one of our own measurements."""
    return [sys.executable, "-m", "benchmarks.trace_child", what, *map(str, arguments)]


def compare(made: Mapping[str, Path], peers: str | None, options: Any) -> dict[str, Any]:
    """Every measurement."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "GPUPERF_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
        found: dict[str, Any] = {}
        for size in ("200 MB", "1 GB"):
            commands = {
                "ours, plain": child("analyze", made[f"{size} plain"]),
                "ours, gz": child("analyze", made[f"{size} gz"]),
                f"ours, gz, {PROCESSES} processes": child("analyze", made[f"{size} gz"], PROCESSES),
                "ours, gz, load only": child("load", made[f"{size} gz"]),
                "floor": child("floor", made[f"{size} gz"]),
            }
            if peers:
                commands["orjson.loads"] = [
                    peers, "benchmarks/peer_orjson.py", str(made[f"{size} plain"]),
                ]  # fmt: skip
            found[size] = measure(commands, options.rounds, env)
            hta_rounds = options.rounds if size == "200 MB" else options.large_peer_rounds
            if peers and hta_rounds:
                both = {
                    "HTA": [peers, "benchmarks/peer_hta.py", str(made[f"{size} gz"])],
                    "ours beside HTA": child("analyze", made[f"{size} gz"], PROCESSES),
                    "ours beside HTA, one process": child("analyze", made[f"{size} gz"]),
                }
                found[size] |= measure(both, hta_rounds, env)
        found["linear"] = measure(
            {size: child("load", made[f"{size} gz"]) for size in SIZES}, options.rounds, env
        )
        found["ranks"] = measure(
            {f"{n} processes": child("ranks", made["ranks"], n) for n in (1, 2)},
            options.rank_rounds, env,
        )  # fmt: skip
        found["cache"] = {
            size: run(child("cached", made[f"{size} gz"]), {**env, "GPUPERF_CACHE_DIR": place})
            for size, place in ((s, f"{cache}/{i}") for i, s in enumerate(SIZES))
        }
    found["text_mb"] = {size: made[f"{size} plain"].stat().st_size / 1e6 for size in SIZES}
    return found


def table(found: Mapping[str, Any]) -> list[str]:
    """The measurements as Markdown."""
    lines: list[str] = []
    for size in ("200 MB", "1 GB"):
        lines += _table_of(size, found[size], found["text_mb"][size])
    base = found["linear"]["200 MB"]["cpu"] / found["text_mb"]["200 MB"]
    lines += [
        "",
        "| size | load s | CPU s | CPU per MB, 200 MB = 1 | peak MB |",
        "|---|--:|--:|--:|--:|",
    ]
    for size, r in found["linear"].items():
        relative = r["cpu"] / found["text_mb"][size] / base
        lines.append(
            f"| {size} | {r['load']:.2f} | {r['cpu']:.2f} | {relative:.2f} | {r['peak_mb']:.0f} |"
        )
    one, two = found["ranks"]["1 processes"], found["ranks"]["2 processes"]
    lines.append("")
    lines.append(
        f"{RANKS} ranks of 50 MB: one process {one['wall']:.1f} s, two {two['wall']:.1f} s: "
        f"{one['wall'] / two['wall']:.2f} times the rate. The largest process had "
        f"{two['peak_mb']:.0f} MB."
    )
    lines += [
        "",
        "| cache | first look s | second look s | of which the key s | times faster | kept MB |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for size, r in found["cache"].items():
        lines.append(
            f"| {size} | {r['first']:.3f} | {r['second']:.3f} | {r['key']:.3f} | "
            f"{r['first'] / r['second']:.0f} | {r['kept_mb']:.1f} |"
        )
    return lines


def _table_of(size: str, rows: Mapping[str, Result], text_mb: float) -> list[str]:
    lines = [
        "",
        f"{size} of text ({text_mb:.0f} MB):",
        "",
        "| | load s | analyses s | CPU s | peak MB | of the text's size |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, r in rows.items():
        if name == "floor":
            continue
        analyses = f"{r['analyses']:.2f}" if "analyses" in r else ""
        lines.append(
            f"| {name} | {r['load']:.2f} | {analyses} | {r['cpu']:.2f} | {r['peak_mb']:.0f} | "
            f"{r['peak_mb'] / text_mb:.2f} |"
        )
    floor, load = rows["floor"], rows["ours, gz, load only"]
    bound = floor["inflate"] + floor["scan"]
    lines.append("")
    lines.append(
        f"Floor: inflating {floor['inflate']:.2f} s and scanning {floor['scan']:.2f} s of CPU; "
        f"loading reaches {bound / load['cpu']:.0%} of it. The rest: typed decoding beyond the "
        f"scan {floor['decode'] - floor['scan']:.2f} s, objects into columns and sorting "
        f"{load['cpu'] - floor['inflate'] - floor['decode']:.2f} s."
    )
    if "HTA" in rows:
        theirs = rows["HTA"]
        for beside, who in (
            ("ours beside HTA", f"{PROCESSES} processes"),
            ("ours beside HTA, one process", "one process"),
        ):
            ours = rows[beside]
            wall = (theirs["load"] + theirs["analyses"]) / (ours["load"] + ours["analyses"])
            lines.append(
                f"Against {who} HTA takes {wall:.1f} times as long, "
                f"{theirs['cpu'] / ours['cpu']:.1f} times the CPU and "
                f"{theirs['peak_mb'] / ours['peak_mb']:.1f} times the memory."
            )
    if "orjson.loads" in rows:
        lines.append(
            f"`orjson.loads` alone takes {rows['orjson.loads']['cpu'] / load['cpu']:.2f} times "
            "the CPU of our inflating, reading and columns together."
        )
    ours = rows["ours, gz"]
    lines.append(f"The analyses take {ours['share']:.0%} of the load's CPU time.")
    return lines


def main() -> None:
    """Make the traces, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--peers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large-peer-rounds", type=int, default=7)
    parser.add_argument("--rank-rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    found = compare(make(options.trace, options.work), options.peers, options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    lines = table(found)
    print("\n".join(lines))
    if options.markdown:
        text = options.markdown.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        options.markdown.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


if __name__ == "__main__":
    main()
