"""``gpuperf collectives``: time, algorithm and bus bandwidth of collectives over sizes."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted, harmless, number
from pytest_gpuperf.cli.json_output import print_json

if TYPE_CHECKING:
    from pytest_gpuperf.distributed import CollectiveTable
    from pytest_gpuperf.distributed.collective_table import CollectiveRow, Interval

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMG]?)(?P<base>iB|B)?\Z", re.IGNORECASE)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3}
_DESCRIPTION = """\
All-reduce, all-gather, reduce-scatter, broadcast and all-to-all over sizes, as nccl-tests shows
them: S is the larger of input and output of a rank, algbw = S/t, busbw = algbw x 2(n-1)/n for
all-reduce, x (n-1)/n for all-gather, reduce-scatter and all-to-all, x 1 for broadcast. Each result
is checked. t runs from the last rank's start to the last rank's end; the median is shown, and its
95% interval. Under torchrun the ranks that are there are used, on one host or several."""


def run(argv: Sequence[str]) -> int:
    """Measure and print the table: 0 fine, 1 wrong results or a rank that failed, 2 usage."""
    args = _parser().parse_args(argv)
    from pytest_gpuperf.cli.ranks import cleaning_up, failed, own_world_size
    from pytest_gpuperf.distributed import measure_collectives
    from pytest_gpuperf.distributed.collective_run import sizes_between
    from pytest_gpuperf.recording import RecordingError
    from pytest_gpuperf.session.ddp_failure import RankFailure

    try:
        with cleaning_up():
            table = measure_collectives(
                _ops(args.op),
                sizes_between(args.min_bytes, args.max_bytes, args.factor),
                own_world_size(args.world_size),
                backend=args.backend,
                dtype=args.dtype,
                device=args.device,
                max_time_s=args.max_time,
                timeout_s=args.timeout,
            )
    except (ValueError, RecordingError) as error:
        return failed("collectives", str(error), 2)
    except RankFailure as failure:
        return failed("collectives", str(failure), 1)
    if table is None:
        return 0
    if args.json:
        print_json(table.to_json())
    else:
        _print(table)
    if all(row.absent for row in table.rows):
        return failed("collectives", "nothing was measured: each row says why", 1)
    return 1 if table.wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf collectives",
        allow_abbrev=False,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--op", action="append", metavar="NAME", help="all_reduce, all_gather, reduce_scatter, "
        "broadcast or all_to_all; may be repeated, or a list with commas; default all")  # fmt: skip
    add("--min-bytes", "-b", type=byte_count, default=byte_count("1K"), metavar="SIZE",
        help="smallest S: 8, 4K, 32M; K, M, G are powers of 1024 (default 1K)")  # fmt: skip
    add("--max-bytes", "-e", type=byte_count, default=byte_count("16M"), metavar="SIZE",
        help="largest S (default 16M)")  # fmt: skip
    add("--factor", "-f", type=int, default=4, help="from one size to the next (default 4)")
    add("--dtype", default="float32", help="of the elements (default float32)")
    add("--world-size", type=int, help="ranks (default 2; under torchrun as many as there are)")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    add("--device", help="cpu or cuda (default: cuda where there is one)")
    add("--max-time", type=positive, default=0.5, metavar="S", help="seconds a case (default 0.5)")
    add("--timeout", type=positive, default=300.0, metavar="S",
        help="time limit of all ranks in seconds (default 300)")  # fmt: skip
    add("--json", action="store_true", help="as JSON")
    return parser


def byte_count(text: str) -> int:
    """Bytes of ``8``, ``4K``, ``32MiB``: powers of 1024 as in nccl-tests, of 1000 for ``32MB``."""
    found = _SIZE.match(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{harmless(text, 40)!r} is no size: write 8, 4K or 32M")
    base = 1000 if (found["base"] or "").upper() == "B" else 1024
    size: float = float(found["number"]) * base ** _POWER[found["unit"].upper()]
    if size != int(size) or size < 1:
        raise argparse.ArgumentTypeError(f"{harmless(text, 40)!r} is no whole number of bytes")
    return int(size)


def positive(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{harmless(text, 40)!r} is no number of seconds above 0")
    return value


def _ops(written: Sequence[str] | None) -> tuple[str, ...]:
    from pytest_gpuperf.workloads.distributed import COLLECTIVES

    if not written:
        return tuple(COLLECTIVES)
    return tuple(op.strip().replace("-", "_") for text in written for op in text.split(","))


def _print(table: CollectiveTable) -> None:
    from pytest_gpuperf.cli.console import emit, make_console, words
    from pytest_gpuperf.cli.console import table as make_table

    console = make_console()
    emit(console, words(_where(table)))
    shown = make_table(
        "collective", "size (B)", "count", "type", "time (µs)", "95%", "algbw (GB/s)",
        "busbw (GB/s)", "wrong", "n", numbers=9,
    )  # fmt: skip
    absent: dict[str, list[str]] = {}
    for row in table.rows:
        if row.absent:
            absent.setdefault(row.absent, []).append(f"{row.op} of {row.bytes} B")
        shown.add_row(*(words(cell) for cell in _cells(row)))
    emit(console, shown)
    for reason, cases in absent.items():
        emit(console, words(f"absent: {', '.join(cases)}: {reason}", width=1000))
    mean = table.mean_busbw_gb_s()
    if mean is not None:
        emit(console, words(f"mean bus bandwidth: {number(mean)} GB/s"))
    for note in table.notes:
        emit(console, words(f"note: {note}"))
    if table.wrong:
        sys.stderr.write(f"gpuperf collectives: {table.wrong} elements of the results are wrong\n")


def _where(table: CollectiveTable) -> str:
    hosts = f" on {table.hosts} hosts" if table.hosts > 1 else ""
    return (
        f"{counted(table.world_size, 'rank')}{hosts}, {table.backend}, {table.device_name}, "
        f"torch {table.torch_version}; GB are 1e9 B"
    )


def _cells(row: CollectiveRow) -> tuple[str, ...]:
    if row.absent:
        return row.op, f"{row.bytes}", "–", row.dtype, "–", "–", "–", "–", "–", "–"
    return (
        row.op,
        f"{row.bytes}",
        f"{row.elements}",
        row.dtype,
        _shown(row.time_us),
        _interval(row.time_interval_us),
        _shown(row.algbw_gb_s),
        _shown(row.busbw_gb_s),
        f"{row.wrong}",
        f"{row.samples}",
    )


def _shown(value: float | None) -> str:
    return "–" if value is None else number(value)


def _interval(bounds: Interval | None) -> str:
    return "–" if bounds is None else f"{number(bounds[0])}–{number(bounds[1])}"
