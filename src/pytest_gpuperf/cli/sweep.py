"""``gpuperf sweep``: a step over a grid of settings, each point in processes of its own."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless, show
from pytest_gpuperf.cli.collectives import positive
from pytest_gpuperf.cli.inputs import USAGE, complain, whole_number
from pytest_gpuperf.sweep.grid import GridError, make_grid, parse_axis, point_words, read_axes

if TYPE_CHECKING:
    from pytest_gpuperf.sweep.grid import Grid
    from pytest_gpuperf.sweep.points import PointResult, Settings
    from pytest_gpuperf.sweep.result import Outcome
    from pytest_gpuperf.sweep.run import Request

_INTERRUPTED = 130
_NOTHING = 1
_DESCRIPTION = """\
Call make_step(**point) at every combination of the axes' values, each in processes of its own with
a time limit, and measure the step that it returns: step time, throughput, FLOPS, MFU and memory. A
point that runs out of memory, hangs or crashes is noted with the reason, and the sweep goes on.
With the axis world_size it is make_step(rank, world_size, **point), on as many ranks.
"""
_EPILOG = """\
  gpuperf sweep train.py:make_step --axis micro_batch=1,2,4 --axis precision=fp32,bf16
  gpuperf sweep pytest_gpuperf.workloads:training_step --axis batch=32,64 --axis width=64,128

Values are whole numbers, numbers, on/off, and words as they are. Ctrl-C prints and writes what is
done; --resume goes on. Exit 0 all points are done, 1 none of them could be measured, 2 usage.
"""


def run(argv: Sequence[str]) -> int:
    """Sweep, write and print: 0; 1 no point was measured, 2 usage, 130 Ctrl-C ended it."""
    from gpuperf_analyzers.trace.model import TraceError
    from pytest_gpuperf.cli.ranks import cleaning_up
    from pytest_gpuperf.recording.errors import RecordingError
    from pytest_gpuperf.recording.line_journal import JournalError
    from pytest_gpuperf.sweep.run import SweepError

    args = _parser().parse_args(argv)
    try:
        with cleaning_up():
            return _sweep(args)
    except (GridError, JournalError, SweepError, TraceError) as error:
        complain(str(error))
    except RecordingError as error:
        complain(str(error).removeprefix("gpuperf: "))
    return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf sweep",
        allow_abbrev=False,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("step", metavar="FILE.py:NAME|MODULE:NAME", help="a function at the top level that returns "
        "the step, a function without arguments, or a workload")  # fmt: skip
    add("--axis", action="append", default=[], metavar="NAME=V1,V2,…", help="a keyword of it and "
        "its values; once an axis")  # fmt: skip
    add("--grid", type=Path, metavar="FILE.toml", help="a table [axes] of lists; before any --axis")
    add("--items", metavar="AXIS*AXIS*N", help="what one step handles, as a product of axes and "
        "numbers: throughput then says which point is best")  # fmt: skip
    add("--timeout", default="300s", metavar="TIME", help="of a point, start included (300s)")
    add("--memory-limit", metavar="SIZE", help='what a process may take on top of torch ("4GiB")')
    add("--device", help="cpu, cuda or cuda:N (default: cuda where there is one)")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto", help="of several ranks")
    add("--warmup", type=positive, default=0.5, metavar="S", help="seconds (default 0.5)")
    add("--max-time", type=positive, default=2.0, metavar="S",
        help="seconds of samples a point (default 2); six are taken at least")  # fmt: skip
    add("--steps", type=whole_number, default=3, metavar="N", help="profiled steps (default 3)")
    add("--measure-peak", action="store_true", help="measure a CPU's peak for MFU, seconds once a "
        "machine")  # fmt: skip
    add("--scheduler", metavar="ADDRESS", help="a Dask scheduler (tcp://HOST:8786) whose workers "
        "run the points; the step's file must be there too")  # fmt: skip
    add("--launcher", metavar="COMMAND", help="starts the ranks of a point instead of us: "
        "'torchrun --nproc-per-node {world_size} --no-python', 'srun -n {world_size}'")  # fmt: skip
    add("--out", type=Path, metavar="FILE.json", help="the result (default .gpuperf/sweep-NAME.json"
        "; text and journal beside it)")  # fmt: skip
    add("--resume", action="store_true", help="go on with a sweep that was ended, running no point "
        "again that is done")  # fmt: skip
    add("--heat", metavar="ROWS,COLUMNS", help="the axes of the heat maps (the two longest)")
    add("--plot", type=Path, metavar="FILE", help="draw them: .svg, .png or .pdf (extra `plot`)")
    add("--json", action="store_true", help="print the result as JSON")
    return parser


def _sweep(args: argparse.Namespace) -> int:
    from pytest_gpuperf.recording.devices import resolve_device
    from pytest_gpuperf.sweep.run import sweep

    request = _request(args)
    device = resolve_device(args.device)
    heat = _heat(args, request.grid)
    if args.plot:
        from pytest_gpuperf.sweep.plot import check_plot_path

        try:
            check_plot_path(args.plot)
        except ValueError as error:
            raise GridError(str(error)) from None
    _writable(_result_path(args))
    if args.scheduler:
        _quiet_dask()
    with _told(len(request.grid)) as seen:
        outcome = sweep(request, device, seen=seen, said=complain)
    return _tell(outcome, args, request, heat)


def _quiet_dask() -> None:
    """What Dask's client logs, tracebacks too, is told in one line by us."""
    import logging

    with suppress(ImportError):
        import distributed  # noqa: F401 - importing it sets its loggers up

        logging.getLogger("distributed.client").setLevel(logging.CRITICAL + 1)


def _request(args: argparse.Namespace) -> Request:
    from pytest_gpuperf.sweep.run import Request
    from pytest_gpuperf.sweep.target import find_target

    axes = read_axes(args.grid) if args.grid else []
    grid = make_grid([*axes, *map(parse_axis, args.axis)])
    return Request(
        step=args.step,
        target=find_target(args.step),
        grid=grid,
        settings=_settings(args, grid),
        journal=_result_path(args).with_suffix(".journal.jsonl"),
        resume=args.resume,
        scheduler=args.scheduler,
    )


def _settings(args: argparse.Namespace, grid: Grid) -> Settings:
    from gpuperf_analyzers.quantities import QuantityError, parse_quantity, parse_seconds
    from pytest_gpuperf.recording.devices import resolve_device
    from pytest_gpuperf.sweep.grid import WORLD_SIZE
    from pytest_gpuperf.sweep.points import Settings

    try:
        timeout_s = parse_seconds(args.timeout)
    except QuantityError as error:
        raise GridError(f"--timeout: {error}") from None
    if not 0 < timeout_s < float("inf"):
        raise GridError(f"--timeout {harmless(args.timeout, 40)}: it must be above 0")
    limit = None
    if args.memory_limit is not None:
        try:
            limit = int(parse_quantity(args.memory_limit, "bytes").value)
        except (QuantityError, OverflowError) as error:
            raise GridError(f"--memory-limit: {error}") from None
        if not 0 < limit < 2**62:
            raise GridError(f"--memory-limit {harmless(args.memory_limit, 40)}: it must be above 0")
    launcher = _launcher(args.launcher)
    if launcher and WORLD_SIZE not in grid.axes:
        raise GridError(f"--launcher starts ranks: give the axis {WORLD_SIZE}")
    return Settings(
        device=str(resolve_device(args.device)),
        timeout_s=timeout_s,
        memory_limit=limit,
        warmup_s=args.warmup,
        max_time_s=args.max_time,
        steps=args.steps,
        measure_peak=args.measure_peak,
        items=_items(args.items, grid),
        backend=args.backend,
        launcher=launcher,
    )


def _launcher(text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise GridError(f"--launcher {harmless(text, 80)}: {error}") from None


def _items(text: str | None, grid: Grid) -> tuple[str, ...]:
    """The factors of ``--items``: axes whose values are numbers, and numbers."""
    if text is None:
        return ()
    factors = tuple(part.strip() for part in text.split("*"))
    for factor in factors:
        values = grid.axes.get(factor, (factor,))
        for value in values:
            try:
                right = not isinstance(value, bool) and 0 < float(value) < float("inf")
            except ValueError:
                right = False
            if not right:
                named = "is no axis and no number" if factor not in grid.axes else f"has {value!r}"
                raise GridError(
                    f"--items: {harmless(factor, 40)!r} {harmless(named, 60)}: write a product of "
                    "axes and numbers above 0, as micro_batch*accumulation"
                )
    return factors


def _heat(args: argparse.Namespace, grid: Grid) -> tuple[str, ...]:
    """The axes that the heat maps are to have; refused here and not after hours."""
    if args.heat is None:
        return ()
    chosen = tuple(part.strip() for part in args.heat.split(","))
    if len(chosen) != 2 or chosen[0] == chosen[1] or not set(chosen) <= grid.axes.keys():
        raise GridError(f"--heat: name two of the axes {', '.join(grid.axes)} as ROWS,COLUMNS")
    return chosen


def _result_path(args: argparse.Namespace) -> Path:
    name = "".join(c for c in args.step.rpartition(":")[2] if c.isalnum() or c == "_")[:80]
    path: Path = args.out or Path(".gpuperf") / f"sweep-{name}.json"
    return path if path.suffix == ".json" else path.with_name(f"{path.name}.json")


def _writable(result: Path) -> None:
    if result.is_dir():
        raise GridError(f"--out {harmless(result, 120)} is a folder: name a file")
    try:
        result.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GridError(
            f"no result can be written to {harmless(result.parent, 120)} ({error.strerror}): --out "
            "chooses a file"
        ) from None


@contextmanager
def _told(count: int) -> Iterator[Callable[[PointResult, int], None]]:
    """A bar in a terminal; elsewhere a line a point, so that a log shows how far it is."""
    from pytest_gpuperf.cli.progress import progress

    with progress("sweeping", count) as bar:

        def seen(result: PointResult, done: int) -> None:
            if bar is not None:
                bar(done, count, point_words(result.values))
            else:
                sys.stderr.write(f"{done}/{count} {point_words(result.values)}: {_short(result)}\n")
                sys.stderr.flush()

        yield seen


def _short(result: PointResult) -> str:
    time = result.number("step_time")
    return f"{result.status}: {result.detail}" if time is None else show(time, "us")


def _tell(
    outcome: Outcome, args: argparse.Namespace, request: Request, heat: tuple[str, ...]
) -> int:
    """Write the files, and only then print: the output may be closed."""
    from pytest_gpuperf.cli.views.sweep import as_text, print_sweep
    from pytest_gpuperf.mamf.writing import write_json, write_text
    from pytest_gpuperf.sweep.points import MEASURED
    from pytest_gpuperf.sweep.result import to_json

    path = _result_path(args)
    document = to_json(outcome)
    write_json(path, document)
    write_text(path.with_suffix(".txt"), as_text(outcome, heat))
    written = f"written: {path} and {path.with_suffix('.txt').name}"
    if args.plot:
        written += _plotted(outcome, args.plot, heat)
    if outcome.stopped:
        written += f"\n{request.journal} has what is done: --resume goes on with it"
    else:
        request.journal.unlink(missing_ok=True)
    if args.json:
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        print_sweep(outcome, heat)
    (sys.stderr if args.json else sys.stdout).write(written + "\n")
    if outcome.stopped:
        if outcome.stopped == "interrupted":
            return _INTERRUPTED
        complain(outcome.stopped)
        return USAGE
    return 0 if outcome.counts().get(MEASURED) else _NOTHING


def _plotted(outcome: Outcome, path: Path, heat: tuple[str, ...]) -> str:
    from pytest_gpuperf.sweep.plot import plot_sweep

    try:
        return f", {plot_sweep(outcome, path, heat)}"
    except ValueError as error:
        return f"; no plot: {error}"
