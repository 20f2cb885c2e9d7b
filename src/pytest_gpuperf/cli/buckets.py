"""``gpuperf buckets``: DDP's bucket size against step time and overlap, as a table and a plot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import counted, harmless, show, show_interval
from pytest_gpuperf.cli.collectives import positive
from pytest_gpuperf.cli.json_output import print_json

if TYPE_CHECKING:
    from gpuperf_analyzers.metrics import Value
    from pytest_gpuperf.distributed import BucketSweep

_DESCRIPTION = """\
The training step of three linear layers (ReLU, MSE, SGD) under DistributedDataParallel, or of a
make_step(rank, world_size, bucket_cap_mb) of yours, measured for each bucket size: step time
(profiler off), overlap and communication (profiled steps) of the worst rank, with 95% intervals.
Under torchrun the ranks that are there are used."""


def run(argv: Sequence[str]) -> int:
    """Measure and print the sweep: 0 fine, 1 a rank failed, 2 usage."""
    args = _parser().parse_args(argv)
    from pytest_gpuperf.cli.ranks import cleaning_up, failed, own_world_size
    from pytest_gpuperf.distributed import plot_buckets, sweep_buckets
    from pytest_gpuperf.distributed.bucket_plot import check_plot_path
    from pytest_gpuperf.recording import Options, RecordingError
    from pytest_gpuperf.session.ddp_failure import RankFailure

    try:
        if args.plot:
            check_plot_path(args.plot)
        with cleaning_up():
            world_size = own_world_size(args.world_size)
            sweep = sweep_buckets(
                _make_step(args, world_size),
                args.caps,
                world_size,
                backend=args.backend,
                device=args.device,
                options=Options(
                    warmup_s=args.warmup,
                    max_time_s=args.max_time,
                    steps=args.steps,
                    min_samples=6,  # fewer have no interval
                    measure_peak=False,
                ),
                folder=args.traces,
                timeout_s=args.timeout,
                told=_tell,
            )
        if sweep is None:
            return 0
        if args.plot:
            plot_buckets(sweep, args.plot)
    except (ValueError, RecordingError) as error:
        return failed("buckets", str(error), 2)
    except RankFailure as failure:
        return failed("buckets", str(failure), 1)
    if args.json:
        print_json(sweep.to_json())
    else:
        _print(sweep)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf buckets",
        allow_abbrev=False,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("make_step", nargs="?", metavar="FILE.py:NAME", help="a function at the top level of a "
        "file, called with rank, world_size and bucket_cap_mb; it returns the step")  # fmt: skip
    add("--caps", type=caps, default=caps("1,5,25,100,400"), metavar="MIB,…",
        help="bucket sizes in MiB (default 1,5,25,100,400)")  # fmt: skip
    add("--width", type=int, default=4000, help="of the linear layers (default 4000)")
    add("--batch", type=int, default=1000, help="rows of a rank's batch (default 1000)")
    add("--steps", type=int, default=10, help="profiled steps (default 10)")
    add("--world-size", type=int, help="ranks (default 2; under torchrun as many as there are)")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    add("--device", help="cpu or cuda (default: cuda where there is one)")
    add("--warmup", type=positive, default=1.0, metavar="S", help="seconds (default 1)")
    add("--max-time", type=positive, default=10.0, metavar="S",
        help="seconds of samples a size (default 10); six are taken at least")  # fmt: skip
    add("--timeout", type=positive, default=300.0, metavar="S",
        help="time limit of a size's ranks in seconds (default 300)")  # fmt: skip
    add("--plot", metavar="FILE", help="draw it too: .svg, .png or .pdf (extra `plot`)")
    add("--traces", metavar="FOLDER", help="keep every rank's trace there")
    add("--json", action="store_true", help="as JSON")
    return parser


def caps(text: str) -> tuple[float, ...]:
    """Bucket sizes in MiB from a list with commas."""
    try:
        sizes = tuple(float(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or not all(0 < size < float("inf") for size in sizes):
        raise argparse.ArgumentTypeError(
            f"{harmless(text, 60)!r} is no list of sizes in MiB above 0: write 1,25,100"
        )
    return sizes


def _make_step(args: argparse.Namespace, world_size: int) -> Callable[..., Callable[[], object]]:
    """The user's function, or the three linear layers of the size asked for.

    Raises
    ------
    ValueError
        There is no such file or function in it, or the layers of all ranks do not fit.
    """
    if args.make_step is None:
        from pytest_gpuperf.workloads.distributed import three_linears
        from pytest_gpuperf.workloads.distributed.linear_layers import check_sizes

        check_sizes(args.width, args.batch)
        _check_memory(args, world_size)
        return partial(three_linears, width=args.width, batch=args.batch)
    from pytest_gpuperf.ranks import Target

    path, _, name = args.make_step.rpartition(":")
    if not path or not name or not Path(path).is_file():
        raise ValueError(f"{harmless(args.make_step)}: write FILE.py:NAME of a file that is there")
    try:
        return Target(str(Path(path).resolve()), name, Path(path).stem).load()
    except Exception as error:  # it is the user's file: anything may come
        first = str(error).partition("\n")[0]
        raise ValueError(f"{harmless(path)}: {type(error).__name__}: {first}") from error


def _check_memory(args: argparse.Namespace, world_size: int) -> None:
    """Refuse layers that the ranks started here cannot hold together, on a CPU.

    Raises
    ------
    ValueError
        They cannot.
    """
    from pytest_gpuperf.recording import resolve_device
    from pytest_gpuperf.recording.capacity import available_bytes
    from pytest_gpuperf.session.ddp_joined import torchrun_place
    from pytest_gpuperf.session.ddp_plan import check_startable
    from pytest_gpuperf.workloads.distributed.linear_layers import three_linears_bytes

    device = resolve_device(args.device)
    if device.type != "cpu" or torchrun_place() is not None:
        return  # each rank asks for itself
    check_startable(world_size)
    needed = three_linears_bytes(args.width, args.batch) * world_size
    there = available_bytes(device)
    if there is not None and needed > there:
        raise ValueError(
            f"--width {args.width} and --batch {args.batch} take at least {needed:,} B on "
            f"{counted(world_size, 'rank')}, {there:,} B are there: take smaller ones"
        )


def _tell(cap: float) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"bucket_cap_mb={cap:g} …\n")


def _print(sweep: BucketSweep) -> None:
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    console = make_console()
    emit(
        console, words(f"{counted(sweep.world_size, 'rank')}, {sweep.backend}, {sweep.device_name}")
    )
    shown = table(
        "MiB", "buckets", "step time", "95%", "overlap", "95%", "exposed comm", "95%", "comm",
        numbers=9,
    )  # fmt: skip
    reasons: dict[str, None] = {}
    for row in sweep.rows:
        cells: list[Any] = [f"{row.bucket_cap_mb:g}", f"{row.buckets}"]
        for metric, unit in (("step_time", "us"), ("overlap", "fraction"), ("exposed_comm", "us")):
            cells += _cells(row.values[metric], unit)
        cells.append(_cells(row.values["comm_time"], "us")[0])
        shown.add_row(*(words(cell) for cell in cells))
        reasons |= dict.fromkeys(
            f"{value.name} at {row.bucket_cap_mb:g} MiB is absent: {value.absent_reason}"
            for value in row.values.values()
            if value.absent_reason
        )
    emit(console, shown)
    for line in (_verdict(sweep), *reasons, *(f"note: {n}" for n in sweep.notes)):
        if line:
            emit(console, words(line))


def _cells(value: Value, unit: str) -> tuple[str, str]:
    if value.value is None:
        return "–", "–"
    if value.interval is None:
        return show(value.value, unit), "–"
    return show(value.value, unit), show_interval(value.value, value.interval, unit)


def _verdict(sweep: BucketSweep) -> str:
    best = sweep.fastest()
    if best is None:
        return ""
    others = ", ".join(f"{cap:g}" for cap in sweep.not_apart())
    apart = f"; not told apart from {others} MiB: their intervals meet" if others else ""
    return f"shortest step: {best.bucket_cap_mb:g} MiB{apart}"
