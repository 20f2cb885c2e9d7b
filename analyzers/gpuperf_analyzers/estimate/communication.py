"""Bytes and times of communication, and where it outweighs compute.

Bandwidths are bytes/s in one direction and named so: a link of "900 GB/s" is often the sum of
both ways. GB = 1e9.
"""

from __future__ import annotations

from typing import Literal

from gpuperf_analyzers.estimate.terms import EstimateError

AllReduce = Literal["ring", "in-network"]

FACTORS = {
    "all-reduce": 2.0,
    "all-gather": 1.0,
    "reduce-scatter": 1.0,
    "all-to-all": 1.0,
}
"""What a ring sends one way out of each rank, times payload × (n - 1)/n (nccl-tests)."""


def sent_bytes(collective: str, payload: float, ranks: int) -> float:
    """Bytes that each of `ranks` sends one way in a ring `collective` of `payload` bytes.

    The payload is the whole of what is reduced or gathered, as in nccl-tests.
    """
    if collective == "send":
        return payload
    if collective not in FACTORS:
        raise EstimateError(f"the collective {collective!r} is unknown: {', '.join(FACTORS)}, send")
    if ranks < 1:
        raise EstimateError(f"{ranks} ranks: 1 or more")
    return FACTORS[collective] * payload * (ranks - 1) / ranks


def transfer_us(moved: float, one_way_bytes_s: float) -> float:
    """Time, µs, of `moved` bytes over a link of so many bytes/s in one direction."""
    if not one_way_bytes_s > 0:
        raise EstimateError(f"a link of {one_way_bytes_s} bytes/s carries nothing")
    return moved / one_way_bytes_s * 1e6


def compute_us(flops: float, peak_flops_s: float) -> float:
    """Time, µs, of `flops` at `peak_flops_s` FLOP/s."""
    if not peak_flops_s > 0:
        raise EstimateError(f"a peak of {peak_flops_s} FLOP/s computes nothing")
    return flops / peak_flops_s * 1e6


def needed_intensity(peak_flops_s: float, one_way_bytes_s: float) -> float:
    """FLOP that a device can do in the time of one byte: above it a link is no bottleneck."""
    return peak_flops_s / one_way_bytes_s


def tp_intensity(hidden: int, tp: float) -> float:
    """FLOP a byte of a tensor-parallel layer, simplified: 2·3·h / (2·t).

    One value of the layer's input, two bytes, takes part in h/t multiply-adds on each rank, and
    in as many for each of the two gradients: 3 × 2·h/t FLOP.
    """
    return 2 * 3 * hidden / (2 * tp)


def tp_bound(hidden: int, peak_flops_s: float, bytes_s: float) -> float:
    """Largest t that the simplified bound allows: 2·3·h/(2·t) ≥ peak/bandwidth, t ≤ 3·h·bw/peak.

    Say which bandwidth it is: that of both ways gives twice the t of one way.
    """
    return 3 * hidden * bytes_s / peak_flops_s


def tp_bound_megatron(
    hidden: int,
    peak_flops_s: float,
    one_way_bytes_s: float,
    *,
    algorithm: AllReduce = "ring",
    layer_parameters: float | None = None,
) -> float:
    """Largest t at which a layer's compute takes as long as its four all-reduces; to plan with.

    Forward and backward a layer of P parameters (12·h² unless given) does 6·P·s·b/t FLOP on each
    rank, and all-reduces s·b·h values of two bytes four times (Shoeybi et al. (2019), section 3).
    A ring sends 2·(t - 1)/t of the payload one way, so 6·P/t·1/peak ≥ 16·h·(t - 1)/t·1/bw:
    t ≤ 1 + 6·P/(16·h)·bw/peak, which is 1 + 4.5·h·bw/peak. Where switches reduce (NVLink SHARP)
    each rank sends the payload once: t ≤ 6·P/(8·h)·bw/peak, which is 9·h·bw/peak, three times
    the simplified bound. At t = 2 a ring sends the payload once too.
    """
    work = 6 * (12 * hidden**2 if layer_parameters is None else layer_parameters)
    if algorithm == "in-network":
        return work / (8 * hidden) * one_way_bytes_s / peak_flops_s
    return 1 + work / (16 * hidden) * one_way_bytes_s / peak_flops_s


def head_a_gpu_bandwidth(head_width: int, peak_flops_s: float) -> float:
    """Bytes/s one way that one attention head a GPU needs: t = h/d, so peak / (3·d)."""
    return peak_flops_s / (3 * head_width)


def bits_to_bytes(gigabits_s: float, links: int = 1) -> float:
    """Bytes/s of `links` of so many Gb/s, one way."""
    return gigabits_s * 1e9 / 8 * links
