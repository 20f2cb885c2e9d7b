"""What ``gpuperf estimate`` reads: configs, chains of layers, modules, specs, devices."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import harmless
from gpuperf_analyzers.estimate.terms import EstimateError

if TYPE_CHECKING:
    from gpuperf_analyzers.estimate.clusters import Cluster
    from gpuperf_analyzers.estimate.network import Network
    from gpuperf_analyzers.estimate.spec import ModelSpec
    from gpuperf_analyzers.estimate.transformer import TransformerConfig

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

_LARGEST_FILE = 2**26
_VALUE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp64": 8}


def models(names: list[str], files: list[str]) -> list[TransformerConfig]:
    """The models named and those in files.

    Raises
    ------
    EstimateError
        One that is not known or cannot be read.
    """
    from gpuperf_analyzers.estimate.known_models import from_config, known_model

    found = [known_model(name) for name in names]
    for file in files:
        path = Path(file)
        name = path.parent.name if path.stem == "config" and path.parent.name else path.stem
        written = _read(path)
        try:
            found.append(from_config(written, harmless(name, 40)))
        except EstimateError as error:
            raise EstimateError(f"{file}: {error}") from None
    return list({c.name: c for c in found}.values())


def chain(file: str) -> Network:
    """The chain of layers in `file`: ``input``, ``dtype`` and ``layer`` (a list of tables).

    Raises
    ------
    EstimateError
        It cannot be read or is no such chain.
    """
    from gpuperf_analyzers.estimate.network import network

    written = _read(Path(file))
    described = written.get("layer", written.get("layers"))
    shape = written.get("input")
    if not isinstance(described, list) or not isinstance(shape, list):
        raise EstimateError(f"{file}: write input = [8, 3, 32, 32] and a [[layer]] table for each")
    dtype = str(written.get("dtype", "fp32"))
    if dtype not in _VALUE_BYTES:
        raise EstimateError(f"{file}: dtype {dtype!r} is unknown: {', '.join(_VALUE_BYTES)}")
    try:
        return network(shape, described, value_bytes=_VALUE_BYTES[dtype])
    except EstimateError as error:
        raise EstimateError(f"{file}: {error}") from None


def cluster_of(args: argparse.Namespace) -> Cluster:
    """The cluster that the options describe, over the table and what is declared.

    Raises
    ------
    EstimateError
        A GPU whose name means several devices.
    """
    from gpuperf_analyzers.estimate.clusters import cluster
    from gpuperf_analyzers.registry import load_config

    return cluster(
        args.gpu,
        load_config().peaks,
        dtype=args.dtype,
        memory_bytes=args.gpu_memory,
        flops_s=None if args.tflops is None else args.tflops * 1e12,
        intra_bytes_s=args.link,
        inter_bytes_s=args.network,
        gpus_per_node=args.gpus_per_node,
    )


def spec_of_file(file: str) -> ModelSpec:
    """The model spec in `file`.

    Raises
    ------
    EstimateError
        It cannot be read or is none.
    """
    from gpuperf_analyzers.estimate.spec import parse_spec

    raw = _read(Path(file))
    try:
        return parse_spec(raw)
    except EstimateError as error:
        raise EstimateError(f"{file}: {error}") from None


def write_spec(spec: ModelSpec, file: str) -> None:
    """Write `spec` as JSON, whole or not at all."""
    path = Path(file)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(spec.to_json()), encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def spec_of_module(written: str) -> ModelSpec:
    """The spec of what a function of the user's returns: a module, or a module and its inputs.

    Parameters
    ----------
    written
        ``FILE.py:FUNCTION``.

    Raises
    ------
    EstimateError
        It cannot be loaded, or what it returns is no module with inputs.
    """
    from pytest_gpuperf.model_spec import ModelSpecError, model_spec
    from pytest_gpuperf.recording.errors import RecordingError

    file, _, name = written.rpartition(":")
    if not file or not name.isidentifier():
        raise EstimateError(f"--module {written!r}: write FILE.py:FUNCTION")
    try:
        made = _call(Path(file), name)
        model, *inputs = made if isinstance(made, tuple) else (made,)
        spec: ModelSpec = model_spec(model, *inputs)
    except (ModelSpecError, RecordingError) as error:
        raise EstimateError(str(error).removeprefix("gpuperf: ")) from None
    return spec


def _call(path: Path, name: str) -> Any:
    """What the function `name` of the file `path` returns, called on the meta device."""
    from pytest_gpuperf.recording.errors import import_torch

    if not path.is_file():
        raise EstimateError(f"{path}: there is no such file")
    torch = import_torch()
    loaded = importlib.util.spec_from_file_location(path.stem, path)
    if loaded is None or loaded.loader is None:
        raise EstimateError(f"{path}: this is no Python file")
    module = importlib.util.module_from_spec(loaded)
    sys.path.insert(0, str(path.parent))
    try:
        loaded.loader.exec_module(module)
        function = getattr(module, name, None)
        if not callable(function):
            raise EstimateError(f"{path} has no function {name!r}")  # noqa: TRY301 - passed on
        # What it makes without saying where takes no memory.
        with torch.device("meta"):
            return function()
    except EstimateError:
        raise
    except Exception as error:
        what = harmless(f"{type(error).__name__}: {error}".splitlines()[0])
        raise EstimateError(f"{path}:{name}: {what}") from error
    finally:
        sys.path.remove(str(path.parent))


def _read(path: Path) -> dict[str, Any]:
    """A JSON or TOML file as a table."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise EstimateError(f"{path}: larger than 64 MiB: this is no config")
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise EstimateError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise EstimateError(f"{path}: no {kind}: {harmless(error, 120)}") from None
    if not isinstance(found, dict):
        raise EstimateError(f"{path}: a table of names and values is needed")
    return found
