"""``gpuperf estimate``: what a model takes, which layouts of it fit a cluster, and how fast."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.cli.estimate_options import make_parser
from pytest_gpuperf.cli.inputs import USAGE, complain

if TYPE_CHECKING:
    from gpuperf_analyzers.estimate.searching import Found
    from gpuperf_analyzers.estimate.transformer import TransformerConfig

_OUT_OF_TOLERANCE = 1


def run(argv: Sequence[str]) -> int:
    """Estimate what `argv` asks for: 0 fine, 1 a measurement differs, 2 wrong usage."""
    from gpuperf_analyzers.estimate.terms import EstimateError

    parser = make_parser()
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except EstimateError as error:
        complain(f"estimate: {error}")
        return USAGE


def _run(args: argparse.Namespace) -> int:
    from gpuperf_analyzers.estimate.terms import EstimateError

    if args.against_measurement:
        return _against(args)
    if args.layers:
        return _layers(args)
    if args.module or args.spec:
        return _spec(args)
    from pytest_gpuperf.cli.estimate_inputs import models

    found = models(args.model, args.config)
    if not found:
        raise EstimateError(
            "say what: --model NAME, --config FILE, --module FILE.py:FUNCTION, --layers FILE, "
            "or --against-measurement"
        )
    if args.gpus or args.nodes or _laid_out(args):
        return _search(args, found)
    return _arithmetic(args, found)


def _arithmetic(args: argparse.Namespace, found: list[TransformerConfig]) -> int:
    """Memory and FLOP of each model, laid out on nothing."""
    from gpuperf_analyzers.estimate.training import training_estimate
    from pytest_gpuperf.cli.views import estimates

    made = [
        training_estimate(
            c,
            batch=args.batch or 1,
            sequence=args.sequence,
            optimizer=args.optimizer,
            precision=args.precision,
            recompute=args.recompute or "selective",
            counting=args.activations or "megatron",
            count=args.params,
        )
        for c in found
    ]
    cards = args.card or [80e9, 24e9]
    return estimates.show_training(made, cards, args)


def _laid_out(args: argparse.Namespace) -> bool:
    """Whether one layout is asked for."""
    return any(getattr(args, way) is not None for way in ("tp", "pp", "cp", "ep", "dp"))


def _search(args: argparse.Namespace, models: list[TransformerConfig]) -> int:
    """Layouts of each model on each number of nodes; a heat map where there are several."""
    from pytest_gpuperf.cli.estimate_inputs import cluster_of
    from pytest_gpuperf.cli.views import layouts

    on = cluster_of(args)
    sizes = args.nodes or [None]
    found: dict[tuple[str, int], Found] = {}
    for c in models:
        for nodes in sizes:
            gpus = _gpus(args, nodes)
            here = found_of(args, c, on, gpus)
            found[c.name, nodes or -(-here.gpus // on.gpus_per_node)] = here
    if len(found) > 1:
        return layouts.show_heat_map(found, args)
    return layouts.show_layouts(next(iter(found.values())), args)


def _gpus(args: argparse.Namespace, nodes: int | None) -> int:
    """GPUs in all; 0 where only the ways of a layout say how many."""
    return nodes * args.gpus_per_node if nodes else args.gpus or 0


def found_of(args: argparse.Namespace, c: TransformerConfig, on: Any, gpus: int) -> Found:
    """The search that `args` ask for, of one model on `gpus` GPUs, or the one layout."""
    from gpuperf_analyzers.estimate.searching import search
    from gpuperf_analyzers.estimate.terms import EstimateError

    if args.batch is None and not _laid_out(args):
        raise EstimateError("a search needs --batch, the samples an update over all GPUs")
    batch = args.batch or _ways(args)["dp"] * (args.micro_batch or 1)
    layouts = _one(args, c, batch, gpus) if _laid_out(args) else None
    options: dict[str, Any] = {}
    if args.recompute:
        options["recompute"] = (args.recompute,)
    if args.zero is not None:
        options["zero"] = (args.zero,)
    return search(
        c,
        on,
        gpus=gpus if layouts is None else int(layouts.gpus[0]),
        batch=batch,
        sequence=args.sequence,
        optimizer=args.optimizer,
        precision=args.precision,
        counting=args.activations or "tensors",
        efficiency=args.efficiency,
        headroom=args.headroom,
        layouts=layouts,
        **options,
    )


def _ways(args: argparse.Namespace) -> dict[str, int]:
    return {way: getattr(args, way) or 1 for way in ("tp", "pp", "cp", "ep", "dp")}


def _one(args: argparse.Namespace, c: TransformerConfig, batch: int, gpus: int) -> Any:
    """The layout that the ways say, data parallelism filling up the GPUs where it is left out."""
    from dataclasses import replace

    from gpuperf_analyzers.estimate.layouts import one_layout
    from gpuperf_analyzers.estimate.terms import EstimateError

    ways = _ways(args)
    others = ways["tp"] * ways["pp"] * ways["cp"]
    if gpus and args.dp is None:
        ways["dp"] = max(gpus // others, 1)
    if gpus and others * ways["dp"] != gpus:
        text = " × ".join(f"{way} {ways[way]}" for way in ("tp", "pp", "cp", "dp"))
        raise EstimateError(f"{text} are {others * ways['dp']} GPUs, not {gpus}")
    if args.batch is None:
        batch = ways["dp"] * (args.micro_batch or 1)
    return one_layout(
        replace(c, sequence=args.sequence or c.sequence),
        batch=batch,
        zero=args.zero or 0,
        micro_batch=args.micro_batch or 1,
        recompute=args.recompute or "selective",
        interleave=args.interleave or 1,
        sequence_parallel=not args.no_sequence_parallel,
        **ways,
    )


def _layers(args: argparse.Namespace) -> int:
    from pytest_gpuperf.cli.estimate_inputs import chain
    from pytest_gpuperf.cli.views import estimates

    return estimates.show_network(chain(args.layers), args)


def _spec(args: argparse.Namespace) -> int:
    from gpuperf_analyzers.estimate.step_memory import step_estimate
    from pytest_gpuperf.cli.estimate_inputs import spec_of_file, spec_of_module
    from pytest_gpuperf.cli.views import estimates

    spec = spec_of_module(args.module) if args.module else spec_of_file(args.spec)
    if args.write_spec:
        from pytest_gpuperf.cli.estimate_inputs import write_spec

        write_spec(spec, args.write_spec)
    return estimates.show_step(step_estimate(spec, optimizer=args.optimizer), args)


def _against(args: argparse.Namespace) -> int:
    from pytest_gpuperf.cli.views import estimates
    from pytest_gpuperf.model_spec.against import compare_builtin
    from pytest_gpuperf.recording.errors import RecordingError

    try:
        rows = compare_builtin()
    except RecordingError as error:
        complain(f"estimate: {str(error).removeprefix('gpuperf: ')}")
        return USAGE
    estimates.show_compared(rows, args)
    return 0 if all(row.within or row.reason for row in rows) else _OUT_OF_TOLERANCE
