"""The options of ``gpuperf estimate``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from gpuperf_analyzers.metrics import Unit
from gpuperf_analyzers.quantities import QuantityError, parse_quantity

_EPILOG = """\
examples:
  gpuperf estimate --model llama-2-70b --batch 8
  gpuperf estimate --model llama-2-70b --gpu "NVIDIA H100 80GB HBM3" --gpus 64 --network 50GB/s \\
      --batch 512 --sequence 4096 --explain
  gpuperf estimate --model llama-3-8b --gpu "NVIDIA A100-SXM4-80GB" --dp 2 --pp 4 --zero 1 \\
      --batch 256 --sequence 4096
  gpuperf estimate --module train.py:make
  gpuperf estimate --against-measurement

Times are at the peaks given: no run is faster, and none uses more of the peak. GB is 1e9 bytes.
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser, options by what they are about."""
    parser = argparse.ArgumentParser(
        prog="gpuperf estimate",
        usage="gpuperf estimate --model NAME [--batch N] [--gpus N --gpu NAME] [options]",
        allow_abbrev=False,
        description="What training takes by formulas: parameters, memory, FLOP, communication; "
        "and which layouts over GPUs fit.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_what(parser)
    _add_run(parser)
    _add_cluster(parser)
    _add_layout(parser)
    _add_output(parser)
    return parser


def _add_what(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    what.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="a known model (llama-2-70b, gpt2, …); may be repeated",
    )
    what.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="a Transformer's config.json or TOML, in Hugging Face's names",
    )
    what.add_argument(
        "--layers",
        metavar="FILE",
        help="a chain of layers: JSON or TOML with input = […] and [[layer]] tables",
    )
    what.add_argument(
        "--module",
        metavar="FILE.py:FUNCTION",
        help="a function that returns an nn.Module and its inputs; nothing of it is "
        "allocated where the function makes them on the meta device",
    )
    what.add_argument("--spec", metavar="FILE", help="a model spec that --write-spec wrote")
    what.add_argument("--write-spec", metavar="FILE", help="keep the module's spec as JSON")
    what.add_argument(
        "--against-measurement",
        action="store_true",
        help="built-in models on this CPU: predicted and measured side by side",
    )
    what.add_argument("--params", type=_positive, metavar="N",
                      help="parameters in place of the config's own, such as 70e9")  # fmt: skip


def _add_run(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("training")
    run.add_argument(
        "--sequence", type=_count, metavar="N", help="tokens a sample (default: the model's own)"
    )
    run.add_argument(
        "--batch",
        type=_count,
        metavar="N",
        help="samples an update over all GPUs (default 1; of a layout, one a replica)",
    )
    run.add_argument(
        "--optimizer",
        default="adam",
        metavar="NAME",
        help="sgd, momentum, adagrad, adam, adamw or adam8bit (default adam)",
    )
    run.add_argument(
        "--precision",
        default="mixed",
        metavar="NAME",
        help="mixed (2+2+12 bytes with Adam), mixed-fp32-gradients, fp32, bf16",
    )
    run.add_argument(
        "--recompute",
        choices=("none", "selective", "full"),
        help="activations made again (default: selective; a search tries all)",
    )
    run.add_argument("--activations", choices=("megatron", "tensors"),
                     help="Megatron's formula (default without GPUs), or the tensors that this "
                     "model's own widths make (default of a layout)")  # fmt: skip


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    on = parser.add_argument_group("cluster")
    on.add_argument("--gpus", type=_count, metavar="N", help="GPUs in all: search their layouts")
    on.add_argument(
        "--nodes",
        type=_counts,
        metavar="N[,N…]",
        help="nodes; several make a heat map of models and nodes",
    )
    on.add_argument("--gpus-per-node", type=_count, default=8, metavar="N", help="default 8")
    on.add_argument(
        "--gpu",
        default="",
        metavar="NAME",
        help="as the driver names it, or a part of it that means one device",
    )
    on.add_argument("--dtype", default="bf16", metavar="NAME", help="of the products (bf16)")
    on.add_argument(
        "--gpu-memory",
        type=_quantity("bytes"),
        metavar="SIZE",
        help="in place of the table's, such as 80GB",
    )
    on.add_argument("--tflops", type=_positive, metavar="X", help="dense peak, likewise")
    on.add_argument(
        "--link",
        type=_quantity("GB/s"),
        metavar="RATE",
        help="a GPU's link within the node, ONE WAY (450GB/s, of an H100's 900)",
    )
    on.add_argument(
        "--network",
        type=_quantity("GB/s"),
        metavar="RATE",
        help="a GPU's share of the network between nodes, ONE WAY (400 Gb/s = 50GB/s)",
    )
    on.add_argument(
        "--efficiency",
        type=_share,
        default=1.0,
        metavar="SHARE",
        help="share of the peak that products reach (default 1, the bound; "
        "`gpuperf mamf` measures it)",
    )
    on.add_argument(
        "--headroom",
        type=_share,
        default=0.1,
        metavar="SHARE",
        help="share of memory to leave free (default 0.1)",
    )
    on.add_argument("--card", type=_quantity("bytes"), action="append", metavar="SIZE",
                    help="without a cluster: cards of this size (80GB and 24GB)")  # fmt: skip


def _add_layout(parser: argparse.ArgumentParser) -> None:
    one = parser.add_argument_group("one layout, instead of a search")
    for way, what in (("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert"),
                      ("dp", "data")):  # fmt: skip
        one.add_argument(f"--{way}", type=_count, metavar="N", help=f"ways of {what} parallelism")
    one.add_argument("--zero", type=int, choices=(0, 1, 2, 3), help="stage of ZeRO")
    one.add_argument("--micro-batch", type=_count, metavar="N", help="samples at once (default 1)")
    one.add_argument("--interleave", type=_count, metavar="N", help="chunks a pipeline rank has")
    one.add_argument("--no-sequence-parallel", action="store_true",
                     help="norms are not sharded over tensor parallelism")  # fmt: skip


def _add_output(parser: argparse.ArgumentParser) -> None:
    out = parser.add_argument_group("output")
    out.add_argument("--top", type=_count, default=15, metavar="N", help="layouts shown (15)")
    out.add_argument(
        "--explain",
        type=_count,
        nargs="?",
        const=1,
        metavar="N",
        help="layout N (default 1) step by step",
    )
    out.add_argument("--macs", action="store_true", help="count a multiply-add as one")
    form = out.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--csv", action="store_true", help="as CSV")  # fmt: skip


def _positive(written: str) -> float:
    try:
        value = float(written)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{written!r} is not a number above 0")
    return value


def _share(written: str) -> float:
    try:
        return parse_quantity(written, "fraction").value
    except QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(written: str) -> int:
    value = _positive(written)
    if value != int(value) or value > 1e12:
        raise argparse.ArgumentTypeError(f"{written!r} is not a whole number above 0")
    return int(value)


def _counts(written: str) -> list[int]:
    return sorted({_count(part) for part in written.split(",")})


def _quantity(unit: Unit) -> Callable[[str], float]:
    """A parser of quantities in `unit`; a rate becomes bytes/s."""
    factor = 1e9 if unit == "GB/s" else 1.0

    def parse(written: str) -> float:
        try:
            value = parse_quantity(written, unit).value * factor
        except QuantityError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if value == 0:
            raise argparse.ArgumentTypeError(f"{written!r} is not above 0")
        return value

    return parse
