"""What a model is trained on: GPUs, their memory and peak, and the links between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuperf_analyzers.estimate.terms import EstimateError
from gpuperf_analyzers.hardware import find_peak, peak_tflops
from gpuperf_analyzers.hookspecs import Peak

GB = 1e9
GPUS_PER_NODE = 8
DECLARE = (
    "declare it in pyproject.toml: [[tool.gpuperf.device]] with names, tflops, capacity_gb, "
    "link_gb_s; or give --tflops, --gpu-memory and --link"
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """GPUs of one kind in nodes of one size.

    Attributes
    ----------
    gpu
        Name, as shown.
    peak_flops_s
        Dense FLOP/s of one GPU in the dtype of the products; None where it is not known.
    memory_bytes
        Memory of one GPU, as sold: a card of 80 has 80e9; None where it is not known.
    intra_bytes_s, inter_bytes_s
        Bytes/s one way of one GPU to others in its node, and to other nodes; None where not known.
    gpus_per_node
        GPUs that the fast links join.
    notes
        Where figures are from, and what is not known.
    """

    gpu: str
    peak_flops_s: float | None
    memory_bytes: float | None
    intra_bytes_s: float | None
    inter_bytes_s: float | None
    gpus_per_node: int = GPUS_PER_NODE
    notes: tuple[str, ...] = ()


def cluster(
    gpu: str,
    peaks: Iterable[Peak],
    *,
    dtype: str = "bf16",
    memory_bytes: float | None = None,
    flops_s: float | None = None,
    intra_bytes_s: float | None = None,
    inter_bytes_s: float | None = None,
    gpus_per_node: int = GPUS_PER_NODE,
) -> Cluster:
    """The cluster of `gpu`, from the table of devices where nothing else is said.

    A device's ``link_gb_s`` is the sum of both ways: half of it is taken one way.

    Parameters
    ----------
    gpu
        A driver's device name, or a part of one that means one device only; "" for none.
    peaks
        Built-in and declared devices.
    dtype
        Of the matrix products.
    memory_bytes, flops_s, intra_bytes_s, inter_bytes_s
        What stands over the table.
    gpus_per_node
        GPUs in a node.

    Raises
    ------
    EstimateError
        A part of a name that means several devices of different figures.
    """
    if gpus_per_node < 1:
        raise EstimateError(f"a node of {gpus_per_node} GPUs: 1 or more")
    found = _device(gpu, tuple(peaks)) if gpu else None
    notes: list[str] = []
    if gpu and found is None and (flops_s is None or memory_bytes is None):
        notes.append(f"{gpu!r} is not in the table of devices: no share of peak; {DECLARE}")
    if found is not None:
        notes.append(f"{found.names[0]}: {found.source}")
        tflops = peak_tflops(found, dtype)
        if flops_s is None and tflops is None:
            notes.append(f"no dense peak of {found.names[0]} is known for {dtype}: {DECLARE}")
        flops_s = tflops * 1e12 if flops_s is None and tflops is not None else flops_s
        if memory_bytes is None and found.capacity_gb is not None:
            memory_bytes = found.capacity_gb * GB
        if intra_bytes_s is None and found.link_gb_s is not None:
            intra_bytes_s = found.link_gb_s / 2 * GB
    return Cluster(
        found.names[0] if found else gpu or "GPU",
        flops_s, memory_bytes, intra_bytes_s, inter_bytes_s, gpus_per_node, tuple(notes),
    )  # fmt: skip


def _device(gpu: str, peaks: tuple[Peak, ...]) -> Peak | None:
    """The device that the driver names `gpu`, else the only one whose name has `gpu` in it."""
    exact = find_peak(gpu, peaks)
    if exact is not None:
        return exact
    words = gpu.lower().split()
    near = {p.names[0]: p for p in peaks if any(_within(words, n) for n in p.names)}
    if len(near) > 1:
        raise EstimateError(f"the GPU {gpu!r} may be {', '.join(near)}: say which")
    return next(iter(near.values()), None)


def _within(words: list[str], name: str) -> bool:
    """Whether all of `words` are words of `name`, hyphens apart too."""
    known = name.lower().split()
    known += [part for word in known for part in word.split("-")]
    return bool(words) and all(word in known for word in words)
