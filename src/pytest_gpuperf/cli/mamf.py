"""``gpuperf mamf``: the maximum achievable matmul FLOPS of this device, searched and kept."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import harmless
from pytest_gpuperf.cli.inputs import USAGE, complain, whole_number
from pytest_gpuperf.mamf.ranges import PRESETS, Grid, RangeError, make_grid, one, preset, values
from pytest_gpuperf.recording.mamf_cache import DTYPES

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.mamf.ranges import Shape
    from pytest_gpuperf.mamf.result import Outcome
    from pytest_gpuperf.mamf.run import Options
    from pytest_gpuperf.mamf.search import Search

_INTERRUPTED = 130
_QUICK_SHAPE_S, _SHAPE_S = 0.5, 5.0
_QUICK_MAX_S = 50.0
_DESCRIPTION = """\
The highest matmul rate that this device reaches, over a grid of shapes: what mamf_share and the
fixture gpuperf_mamf measure against. A matmul is (M x K) times (K x N): M and N are the sides of
the product, and K is the side that is reduced (summed over). 2*M*N*K FLOP.
"""
_EPILOG = """\
Ranges exclude STOP and skip 0: --m-range 0 5376 256 is 256 to 5120, 20 values. At most 2% of a
grid's shapes are timed (grids of up to 128 shapes whole, larger ones at least 20 and at most 768
shapes), unless --exhaustive. Ctrl-C prints and writes the best so far; --resume goes on.
"""


def run(argv: Sequence[str]) -> int:
    """Search, print, write and keep: 0; 2 where it cannot be done, 130 where Ctrl-C ended it."""
    from pytest_gpuperf.mamf.journal import JournalError
    from pytest_gpuperf.recording.errors import RecordingError

    args = _parser().parse_args(argv)
    try:
        return _search(args)
    except (RangeError, JournalError) as error:
        complain(str(error))
    except RecordingError as error:
        complain(str(error).removeprefix("gpuperf: "))
    return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf mamf",
        allow_abbrev=False,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dtype", choices=DTYPES, help="bf16 on a GPU, fp32 on a CPU by default")
    parser.add_argument("--device", help="cpu, cuda or cuda:N")
    _add_shapes(parser)
    parser.add_argument("--exhaustive", action="store_true", help="time every shape of the grid")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the search that was ended, timing nothing again",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.json",
        help="the result (default .gpuperf/mamf-DTYPE.json; text beside it)",
    )
    parser.add_argument(
        "--first-calls",
        type=whole_number,
        default=10,
        metavar="N",
        help="timed calls of a shape when it is tried (10)",
    )
    parser.add_argument(
        "--last-calls",
        type=whole_number,
        default=100,
        metavar="N",
        help="timed calls of each of the last few (100); half as many warm-ups before either",
    )
    parser.add_argument(
        "--max-time", metavar="TIME", help='end after it, at the next call ("10min"; quick: 50 s)'
    )
    parser.add_argument("--seed", type=int, default=0, help="of the choice of shapes (0)")
    parser.add_argument(
        "--replace", action="store_true", help="let the result replace a higher one in the cache"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _add_shapes(parser: argparse.ArgumentParser) -> None:
    """Add what says which shapes the grid has: a preset, and sides or ranges of them."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--preset",
        choices=PRESETS,
        help="quick (the default): N = K = 4096, M to 20480 by 256, under a minute, smaller on a "
        "CPU; a100, mi300x: each side 0 to 5376 by 256; h100: each side 0 to 20480 by 256",
    )
    which.add_argument(
        "--quick",
        action="store_const",
        const="quick",
        dest="preset",
        help="the same as --preset quick",
    )
    for side, what in (
        ("m", "rows of the product"),
        ("n", "its columns"),
        ("k", "the side that is reduced"),
    ):
        sides = parser.add_mutually_exclusive_group()
        sides.add_argument(f"--{side}", type=int, metavar="SIDE", help=f"{side.upper()}: {what}")
        sides.add_argument(
            f"--{side}-range",
            type=int,
            nargs=3,
            metavar=("START", "STOP", "STEP"),
            help=f"values of {side.upper()}, STOP excluded, 0 skipped",
        )


def _search(args: argparse.Namespace) -> int:
    from gpuperf_analyzers.registry import load_config
    from pytest_gpuperf.mamf.run import find_maximum
    from pytest_gpuperf.recording.devices import resolve_device
    from pytest_gpuperf.session.device_lock import device_lock

    if args.seed < 0:
        raise RangeError(f"--seed {args.seed}: a seed is 0 or more")
    device = resolve_device(args.device)
    options = _options(args, device)
    peaks = load_config().peaks
    _writable(_result_path(args, options.dtype))
    with device_lock([device]), _bar() as seen:
        outcome = find_maximum(options, device, peaks, seen=seen, said=complain)
    return _tell(outcome, args, options)


def _options(args: argparse.Namespace, device: torch.device) -> Options:
    from pytest_gpuperf.mamf.run import Options
    from pytest_gpuperf.mamf.search import Effort

    on_cpu = device.type == "cpu"
    grid = _grid(args, on_cpu=on_cpu)
    dtype = args.dtype or ("fp32" if on_cpu else "bf16")
    if args.last_calls < args.first_calls:
        raise RangeError(
            f"--last-calls {args.last_calls} is less than --first-calls {args.first_calls}"
        )
    quick = grid.name == "quick"
    max_time_s = _QUICK_MAX_S if quick and not args.exhaustive else None
    if args.max_time is not None:
        max_time_s = _seconds(args.max_time)
    return Options(
        dtype=dtype,
        grid=grid,
        journal=_result_path(args, dtype).with_suffix(".journal.jsonl"),
        resume=args.resume,
        exhaustive=args.exhaustive,
        effort=Effort(args.first_calls, args.last_calls),
        shape_s=_QUICK_SHAPE_S if quick else _SHAPE_S,
        max_time_s=max_time_s,
        seed=args.seed,
    )


def _seconds(text: str) -> float:
    from gpuperf_analyzers.quantities import QuantityError, parse_seconds

    try:
        return parse_seconds(text)
    except QuantityError as error:
        raise RangeError(f"--max-time: {error}") from None


def _result_path(args: argparse.Namespace, dtype: str) -> Path:
    path: Path = args.out or Path(".gpuperf") / f"mamf-{dtype}.json"
    return path if path.suffix == ".json" else path.with_name(f"{path.name}.json")


def _grid(args: argparse.Namespace, *, on_cpu: bool) -> Grid:
    """The grid that the options name."""
    given = {s: _side(args, s) for s in "mnk"}
    named = [s for s, found in given.items() if found is not None]
    if not named:
        return preset(args.preset or "quick", on_cpu=on_cpu)
    if args.preset:
        raise RangeError(f"--preset {args.preset} names all ranges: leave --{named[0]} out, or it")
    missing = [s for s in "mnk" if given[s] is None]
    if missing:
        raise RangeError(f"--{missing[0]} or --{missing[0]}-range is missing: name M, N and K")
    return make_grid(*(given[s] or () for s in "mnk"))


def _side(args: argparse.Namespace, side: str) -> tuple[int, ...] | None:
    single, span = getattr(args, side), getattr(args, f"{side}_range")
    if single is not None:
        return one(single, f"--{side}")
    if span is None:
        return None
    start, stop, step = span
    return values(start, stop, step, f"--{side}-range")


def _writable(result: Path) -> None:
    """Make the folder of the results, and see that they can be put there, before hours are spent.

    Raises
    ------
    RangeError
        A folder has the name of the result, or its own folder cannot be made.
    """
    if result.is_dir():
        raise RangeError(f"--out {result} is a folder: name a file")
    try:
        result.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RangeError(
            f"no result can be written to {result.parent} ({error.strerror}): --out chooses a file"
        ) from None


def _bar() -> AbstractContextManager[Callable[[Search, Shape | None], None]]:
    """A progress bar with the best so far; nothing where the standard error is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return nullcontext(lambda *_: None)
    from pytest_gpuperf.cli.mamf_bar import Bar

    return Bar()


def _tell(outcome: Outcome, args: argparse.Namespace, options: Options) -> int:
    """Write both files, keep the maximum, and only then print: the output may be closed."""
    from pytest_gpuperf.mamf.result import to_json, to_text
    from pytest_gpuperf.mamf.writing import write_json, write_text

    path = _result_path(args, options.dtype)
    document, text = to_json(outcome), to_text(outcome)
    write_json(path, document)
    write_text(path.with_suffix(".txt"), text)
    text_name = path.with_suffix(".txt").name
    written = f"written     {harmless(path, 4096)} and {harmless(text_name, 4096)}\n"
    written += f"kept        {harmless(_kept(outcome, args, options), 4096)}\n"
    sys.stdout.write(json.dumps(document, indent=1) + "\n" if args.json else text)
    (sys.stderr if args.json else sys.stdout).write(written)
    if outcome.stopped == "interrupted":
        return _INTERRUPTED
    return 0 if outcome.search.best else 1  # the time given was over before there was a number


def _kept(outcome: Outcome, args: argparse.Namespace, options: Options) -> str:
    """Put a finished search's maximum into the cache; what became of it, in words."""
    from pytest_gpuperf.mamf.run import to_keep
    from pytest_gpuperf.mamf.store import keep

    if outcome.stopped:
        return f"nothing: {options.journal} has what was timed, --resume goes on with it"
    found = to_keep(outcome)
    options.journal.unlink(missing_ok=True)
    if outcome.disturbed:
        return "nothing: on a machine this busy it is no maximum; search again"
    try:
        there, kept = keep(found, replace=args.replace)
    except OSError as error:
        return f"nothing: {error.strerror or error}: {error.filename}"
    higher = "" if kept == found else ", a higher one (--replace replaces it)"
    return f"for mamf_share: {kept.tflops:.4g} TFLOPS{higher} in {there}"
