"""The how-to page's table of workloads is what the workloads themselves say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_gpuperf import workloads
from pytest_gpuperf.workloads import Workload

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "workloads-ready.md"
ONE_OF_EACH: dict[str, Workload] = {
    "matmul": workloads.matmul(1, 1, 1),
    "matmul_kernel": workloads.matmul_kernel("naive", 1, 1, 1),
    "attention": workloads.attention(1, 1, 1, 1),
    "mlp": workloads.mlp(1, 1, 1),
    "transformer_layer": workloads.transformer_layer(1, 1, 1, 1),
    "training_step": workloads.training_step(),
    "convolution": workloads.convolution(1, 1, 1, 1),
    "depthwise": workloads.depthwise(1, 1, 1),
    "elementwise": workloads.elementwise(1),
    "pointwise_chain": workloads.pointwise_chain(1),
    "copy": workloads.copy(1),
    "host_to_device": workloads.host_to_device(1),
    "kernel": workloads.kernel(max, reference=max, inputs=lambda _: ()),
    "spin": workloads.spin(),
}


def test_the_page_has_a_row_of_formulas_for_each_workload() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = re.search(r"<!-- workloads -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert table is not None
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in table[1].splitlines()[2:]]
    assert rows == [
        [f"`{name}`", w.flop_formula or "-", w.byte_formula or "-"]
        for name, w in ONE_OF_EACH.items()
    ]


def test_every_public_workload_is_in_the_table() -> None:
    others = {"Prepared", "UnavailableError", "Workload", "WrongResultError", "batch_sweep"}
    assert set(ONE_OF_EACH) == set(workloads.__all__) - others


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_formula_stands_where_there_is_a_number_and_nowhere_else(name: str) -> None:
    workload = ONE_OF_EACH[name]
    if name != "kernel":
        assert bool(workload.flop_formula) == (workload.flops is not None)
        assert bool(workload.byte_formula) == (workload.bytes is not None)


def test_describing_workloads_imports_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from pytest_gpuperf import workloads as w; w.matmul(1, 1, 1); w.spin();"
        "w.training_step('fp8'); w.attention(1, 1, 1, 1); w.matmul_kernel('tiled', 1, 1, 1);"
        "w.elementwise(1, form='triton'); w.pointwise_chain(1, fused=True); w.copy(1);"
        "print(sorted({'torch', 'triton', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
