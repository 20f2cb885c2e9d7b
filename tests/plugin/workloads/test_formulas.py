"""Each workload is right by its reference, and its FLOP and bytes are those of its formula."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpuperf import workloads
from pytest_gpuperf.recording.flop_count import count_flops
from pytest_gpuperf.workloads import Workload

torch = pytest.importorskip("torch")

COUNTED: list[tuple[Callable[[], Workload], int, int]] = [
    # FLOP and bytes worked out by hand from sizes; fp32 has 4 bytes, bf16 two.
    (lambda: workloads.matmul(33, 17, 65), 2 * 33 * 17 * 65, 4 * (33 * 65 + 65 * 17 + 33 * 17)),
    (
        lambda: workloads.matmul(64, 32, 48, layout="tn"),
        2 * 64 * 32 * 48,
        4 * (64 * 48 + 48 * 32 + 64 * 32),
    ),
    (
        lambda: workloads.matmul(32, 16, 64, dtype="fp8"),  # one byte in, two out
        2 * 32 * 16 * 64,
        32 * 64 + 64 * 16 + 2 * 32 * 16,
    ),
    (
        lambda: workloads.matmul(32, 16, 64, dtype="bf16", layout="tt"),
        2 * 32 * 16 * 64,
        2 * (32 * 64 + 64 * 16 + 32 * 16),
    ),
    # Two products of 40 x 8 x 40 for each of 6 heads; q, k, v and the result.
    (lambda: workloads.attention(2, 3, 40, 8), 2 * 2 * 6 * 40 * 40 * 8, 4 * 4 * 6 * 40 * 8),
    (
        lambda: workloads.attention(2, 3, 40, 8, backend="materialized", causal=True),
        2 * 2 * 6 * 40 * 40 * 8,
        4 * 4 * 6 * 40 * 8,
    ),
    (
        lambda: workloads.attention(2, 3, 40, 8, columns=24, backend="math"),
        2 * 2 * 6 * 40 * 24 * 8,
        4 * 6 * 8 * (2 * 40 + 2 * 24),
    ),
    (
        lambda: workloads.convolution(2, 4, 6, 9),
        2 * (2 * 9 * 9) * (6 * 4 * 9),
        4 * (2 * 4 * 81 + 6 * 4 * 9 + 2 * 6 * 81),
    ),
    (
        lambda: workloads.convolution(2, 4, 6, 9, kernel=5, groups=2),
        2 * (2 * 9 * 9) * (6 * 2 * 25),
        4 * (2 * 4 * 81 + 6 * 2 * 25 + 2 * 6 * 81),
    ),
    (
        lambda: workloads.depthwise(2, 8, 10),
        2 * (2 * 100) * (8 * 9),
        4 * (2 * 2 * 8 * 100 + 8 * 9),
    ),
    (
        lambda: workloads.mlp(16, 32, 64),
        2 * (2 * 16 * 32 * 64),
        4 * (2 * 16 * 32 + 2 * 32 * 64),
    ),
    (
        # Four W x W and two W x H products for 32 tokens, and the two of attention.
        lambda: workloads.transformer_layer(2, 16, 32, 4),
        2 * 32 * (4 * 32 * 32 + 2 * 32 * 128) + 2 * 2 * 2 * 16 * 16 * 32,
        4 * (2 * 32 * 32 + 4 * 32 * 32 + 2 * 32 * 128),
    ),
]
TRAINED = ("fp32", "fp16", "bf16", "fp8")


def ids(cases: list[tuple[Callable[[], Workload], Any, Any]]) -> list[str]:
    return [make().name for make, *_ in cases]


@pytest.mark.parametrize(("make", "flops", "moved"), COUNTED, ids=ids(COUNTED))
def test_flop_and_bytes_are_the_closed_form_and_flop_are_what_is_counted(
    make: Callable[[], Workload], flops: int, moved: int
) -> None:
    workload = make()
    assert (workload.flops, workload.bytes) == (flops, moved)
    assert 0 <= workload.check("cpu") <= 1
    assert count_flops(workload.on("cpu").step).flops == flops


@pytest.mark.parametrize(("make", "flops", "moved"), COUNTED[:2], ids=ids(COUNTED[:2]))
def test_torchs_own_counter_agrees(make: Callable[[], Workload], flops: int, moved: int) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    prepared = make().on("cpu")
    with FlopCounterMode(display=False) as counter:
        prepared.step()
    assert counter.get_total_flops() == flops


@pytest.mark.parametrize("precision", TRAINED)
def test_a_training_step_makes_three_products_a_weight_but_one(precision: str) -> None:
    workload = workloads.training_step(precision, batch=16, width=32, hidden=64, blocks=2)
    # Four weights of 32 x 64, three products each; the input's gradient is the one left out.
    assert workload.flops == (4 * 3 - 1) * 2 * 16 * 32 * 64
    assert 0 < workload.check("cpu") <= 1
    assert count_flops(workload.on("cpu").step).flops == workload.flops


@pytest.mark.parametrize("precision", TRAINED)
def test_training_learns(precision: str) -> None:
    step = workloads.training_step(precision, batch=16, width=32, hidden=64).on("cpu").step
    losses = [float(step()) for _ in range(60)]
    assert losses[-1] < 0.95 * losses[0]


@pytest.mark.parametrize(
    ("kind", "passes"),
    [("fill", 1), ("read", 1), ("copy", 2), ("scale", 2), ("add", 3), ("triad", 3)],
)
def test_a_copy_moves_as_many_arrays_as_stream_counts(kind: str, passes: int) -> None:
    workload = workloads.copy(1000, kind=kind)
    assert workload.bytes == passes * 4 * 1000
    assert workload.check("cpu") <= 1


@pytest.mark.parametrize("links", [1, 2, 5, 6])
def test_a_chain_ends_where_the_geometric_sum_does(links: int) -> None:
    workload = workloads.pointwise_chain(1000, links=links)
    assert workload.check("cpu") <= 1
    assert workload.bytes == 2 * 4 * 1000
    assert f"move {2 * 4 * 1000 * links:,} bytes" in workload.notes[0]


@pytest.mark.parametrize("form", ["eager", "builtin"])
def test_the_forms_of_an_elu_are_the_same_function(form: str) -> None:
    workload = workloads.elementwise(1000, form=form)
    assert workload.check("cpu") <= 1
    assert (workload.flops, workload.bytes, workload.items) == (None, 8000, 1000)


def test_what_is_written_out_grows_with_the_square_of_the_sequence() -> None:
    def scores(rows: int) -> int:
        note = workloads.attention(1, 2, rows, 8, backend="materialized").notes[0]
        return int(re.search(r"take ([\d,]+) bytes", note)[1].replace(",", ""))

    # Scores and probabilities of 2 heads in fp32.
    assert scores(64) == 2 * 4 * 2 * 64 * 64
    assert scores(128) == 4 * scores(64)
    assert workloads.attention(1, 2, 64, 8).notes == ()


def test_inputs_are_the_same_each_time_and_torchs_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = (workloads.matmul(8, 8, 8).on("cpu").step() for _ in "ab")
    assert torch.equal(first, second)
    assert torch.equal(torch.rand(3), expected)


def test_a_workload_is_the_id_of_its_parameter() -> None:
    assert workloads.matmul(1, 2, 3).__name__ == "matmul-1x2x3-fp32-nn"
    assert "build" not in repr(workloads.matmul(1, 2, 3))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: workloads.matmul(0, 1, 1), "m must be a whole number above 0, not 0"),
        (lambda: workloads.matmul(1, True, 1), "n must be a whole number above 0, not True"),
        (lambda: workloads.matmul(1, 1, 1.5), "k must be a whole number"),
        (lambda: workloads.matmul(1, 1, 1, dtype="fp7"), "dtype must be one of fp64, fp32"),
        (lambda: workloads.matmul(1, 1, 1, layout="xy"), "layout must be one of nn, nt"),
        (lambda: workloads.attention(1, 1, 1, 1, backend="slow"), "backend must be one of auto"),
        (lambda: workloads.convolution(1, 4, 4, 8, kernel=2), "kernel=2 is even"),
        (lambda: workloads.convolution(1, 4, 6, 8, groups=3), "3 groups do not divide 4 and 6"),
        (lambda: workloads.transformer_layer(1, 4, 10, 3), "3 heads do not divide a width of 10"),
        (lambda: workloads.training_step("fp8", batch=17), "multiples of 16"),
        (lambda: workloads.copy(5, kind="move"), "kind must be one of fill, read"),
        (lambda: workloads.matmul_kernel("fast", 1, 1, 1), "variant must be one of naive"),
        (lambda: workloads.spin(0), "cycles must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make: Callable[[], Workload], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        make()
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has these")
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (workloads.spin, "a thread of a GPU needs a CUDA GPU"),
        (lambda: workloads.host_to_device(100), "needs a CUDA GPU"),
        (lambda: workloads.matmul_kernel("tiled", 4, 4, 4), "a CUDA kernel needs a CUDA GPU"),
        (lambda: workloads.attention(1, 1, 8, 8, backend="cudnn"), "cudnn attention does not take"),
    ],
)
def test_what_needs_a_gpu_says_so(make: Callable[[], Workload], says: str) -> None:
    with pytest.raises(workloads.UnavailableError, match=says):
        make().on("cpu")
