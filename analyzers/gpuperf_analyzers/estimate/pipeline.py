"""Pipelines: what is in flight, what is idle, what recomputing costs; and the batch."""

from __future__ import annotations

from gpuperf_analyzers.estimate.terms import EstimateError


def bubble(stages: int, micro_batches: float, interleave: int = 1) -> float:
    """Idle time / working time of a 1F1B pipeline: (p - 1) / (v·m).

    Narayanan et al. (2021), section 2.2; ``interleave`` is v, the model chunks a device has.
    """
    _at_least_one(stages=stages, micro_batches=micro_batches, interleave=interleave)
    return (stages - 1) / (interleave * micro_batches)


def in_flight_1f1b(stages: int, micro_batches: int, interleave: int = 1) -> float:
    """Micro-batches whose activations the first stage of a 1F1B pipeline holds at once.

    min(p, m); with v chunks p·(1 + (p - 1)/(p·v)) (Korthikanti et al. (2022), section 4.2.3),
    and never more than m.
    """
    _at_least_one(stages=stages, micro_batches=micro_batches, interleave=interleave)
    held = stages if interleave == 1 else stages * (1 + (stages - 1) / (stages * interleave))
    return min(held, micro_batches)


def in_flight_streaming(stages: int) -> int:
    """Micro-batches in flight at the first stage where one enters in each unit of time: 2·p - 1.

    A micro-batch enters the first stage in unit 1, the last in unit p, and its backward pass is
    back at the first in unit 2·p - 1. Every unit another one enters. (In 1F1B a new one enters
    only when one has come back, so p are in flight: half as many.)
    """
    _at_least_one(stages=stages)
    return 2 * stages - 1


def recomputed_layer_passes(layers: int) -> int:
    """Layer passes where each layer's input is made again from the very start: L·(L + 1)/2.

    The backward pass of layer i needs i forward passes, for i = 1 … L. Plain is L.
    """
    _at_least_one(layers=layers)
    return layers * (layers + 1) // 2


def batch_to_fill(stages: int, data_parallel: int) -> int:
    """Micro-batches that keep every stage of every replica at work: p × dp."""
    _at_least_one(stages=stages, data_parallel=data_parallel)
    return stages * data_parallel


def stages_with_tp(stages: int, tp: int) -> int:
    """Stages that are left where `tp` of the GPUs of a pipeline work on one stage together."""
    _at_least_one(stages=stages, tp=tp)
    return -(-stages // tp)


def global_batch(accumulation: int, nodes: int, gpus_per_node: int, micro_batch: int) -> int:
    """Samples an update of pure data parallelism: accumulation × nodes × GPUs × micro batch."""
    _at_least_one(
        accumulation=accumulation, nodes=nodes, gpus_per_node=gpus_per_node, micro_batch=micro_batch
    )
    return accumulation * nodes * gpus_per_node * micro_batch


def updates(samples: int, batch: int, accumulation: int = 1) -> int:
    """Updates of an epoch: whole batches of `batch` × `accumulation` samples, the last one short.

    A batch of 10 and one of 5 accumulated twice give as many.
    """
    _at_least_one(samples=samples, batch=batch, accumulation=accumulation)
    return -(-samples // (batch * accumulation))


def accumulation_for(batch: int, data_parallel: int, micro_batch: int) -> int:
    """Micro-batches a replica runs for one update of `batch` samples.

    Raises
    ------
    EstimateError
        The batch does not divide.
    """
    _at_least_one(batch=batch, data_parallel=data_parallel, micro_batch=micro_batch)
    steps, rest = divmod(batch, data_parallel * micro_batch)
    if rest:
        raise EstimateError(
            f"a batch of {batch} does not divide by {data_parallel} replicas × micro batch "
            f"{micro_batch}"
        )
    return steps


def _at_least_one(**sizes: float) -> None:
    for name, size in sizes.items():
        if not size >= 1:
            raise EstimateError(f"{name.replace('_', ' ')} is {size}: 1 or more")
