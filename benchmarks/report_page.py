"""Time and size of the HTML page: from the largest trace at hand, and from 64 ranks of it.

``python -m benchmarks.report_page [TRACE] [--ranks N]``; without a trace the largest file of
``../shared/traces``. The ranks are copies of it with numbers of their own. Time of the page is
told apart from that of reading and analyzing, which `benchmarks.trace_engine` measures.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.set_analysis import analyze_set
from gpuperf_analyzers.trace import read_traces
from pytest_gpuperf.report.html.page import page_html
from pytest_gpuperf.report.html.sources import page_of_traces

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces"
LIMIT_MB, LIMIT_OF_64_MB = 3.0, 10.0
"""What a page may weigh: of a typical report, and of 64 ranks."""


def largest() -> Path:
    """The largest packed trace beside this checkout."""
    return max(_SHARED.rglob("*.json.gz"), key=lambda p: p.stat().st_size)


def measured(paths: Sequence[Path]) -> tuple[float, float, float]:
    """Seconds of reading with analyzing, seconds of the page, and its MB."""
    config = load_config()
    begin = time.perf_counter()
    traces = read_traces([str(path) for path in paths])
    found = analyze_set(traces, config)
    analyzed = time.perf_counter()
    text = page_html(page_of_traces(traces, found, config))
    return analyzed - begin, time.perf_counter() - analyzed, len(text.encode()) / 1e6


def ranks_of(source: Path, count: int, folder: Path) -> list[Path]:
    """Copies of `source`, each a rank of one job."""
    document = json.loads(gzip.decompress(source.read_bytes()))
    paths = []
    for rank in range(count):
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": count}
        path = folder / f"rank{rank}.json.gz"
        path.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
        paths.append(path)
    return paths


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    args = parser.parse_args(argv)
    source = args.trace or largest()
    print(f"{source.name}, {source.stat().st_size / 1e6:.1f} MB packed")
    print(f"{'':>9} {'read, analyze':>14} {'page':>8} {'size':>9}  limit")
    with tempfile.TemporaryDirectory() as folder:
        for count, limit in ((1, LIMIT_MB), (args.ranks, LIMIT_OF_64_MB)):
            paths = [source] if count == 1 else ranks_of(source, count, Path(folder))
            analyzed, made, size = measured(paths)
            print(f"{count:>3} ranks {analyzed:>12.1f} s {made:>6.1f} s {size:>6.2f} MB  {limit:g}")
            if size > limit:
                raise SystemExit(f"the page of {count} ranks is larger than {limit:g} MB")


if __name__ == "__main__":
    main()
