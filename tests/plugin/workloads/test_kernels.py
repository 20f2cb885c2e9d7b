"""Kernels by hand: right on a CPU, interpreted (Triton) or with threads for threads (CUDA)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpuperf import workloads
from pytest_gpuperf.workloads.product_kernels import (
    COARSE,
    SOURCE,
    TILE,
    VARIANTS,
    launch_shape,
    loaded_bytes,
    sectors,
)

torch = pytest.importorskip("torch")

INTERPRETED = """
import pytest
from pytest_gpuperf import workloads
for variant in {variants!r}:
    # No size is a multiple of a block, and the third is below one.
    share = workloads.matmul_kernel(variant, 9, 37, 5, language="triton").check("cpu")
    assert 0 < share <= 1, (variant, share)
assert 0 < workloads.elementwise(3000, form="triton").check("cpu") <= 1
print("right")
"""


def test_triton_kernels_are_right_under_the_interpreter() -> None:
    pytest.importorskip("triton", reason="Triton is not installed: pip install triton")
    # A process of its own: Triton decides on its first import whether it interprets.
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED.format(variants=VARIANTS)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU Triton compiles")
def test_without_the_interpreter_triton_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: pip install triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(workloads.UnavailableError, match="set TRITON_INTERPRET=1 before"):
        workloads.elementwise(10, form="triton").on("cpu")


def test_without_triton_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.workloads.triton_here.find_spec", lambda _: None)
    with pytest.raises(workloads.UnavailableError, match=r"pip install pytest-gpuperf\[triton\]"):
        workloads.matmul_kernel("naive", 2, 2, 2, language="triton").on("cpu")


SHIM = r"""
// The CUDA text on a CPU: each thread of a block is a thread, blocks run one after the other.
#include <barrier>
#include <cstddef>
#include <thread>
#include <vector>
#include <cstdio>
#include <cstdlib>
#include <cmath>
struct Place { int x, y; };
static thread_local Place threadIdx;
static Place blockIdx;
static std::barrier<>* all;
#define __global__
#define __shared__ static
#define __syncthreads() all->arrive_and_wait()
#include SOURCE
using Kernel = void (*)(const float*, const float*, float*, int, int, int);
static double off(Kernel kernel, bool down, int coarse, int m, int n, int k) {
  std::vector<float> a(m * k), b(k * n), c(m * n, NAN);
  for (auto& v : a) v = rand() % 17 - 8;
  for (auto& v : b) v = rand() % 17 - 8;
  int rows = (m + TILE - 1) / TILE, columns = (n + TILE - 1) / TILE;
  columns = (columns + coarse - 1) / coarse;
  int grid_x = down ? rows : columns, grid_y = down ? columns : rows;
  for (int by = 0; by < grid_y; ++by) for (int bx = 0; bx < grid_x; ++bx) {
    blockIdx = {bx, by};
    std::barrier<> meeting(TILE * TILE);
    all = &meeting;
    std::vector<std::thread> threads;
    for (int y = 0; y < TILE; ++y) for (int x = 0; x < TILE; ++x)
      threads.emplace_back([=, &a, &b, &c] {
        threadIdx = {x, y};
        kernel(a.data(), b.data(), c.data(), m, n, k);
        all->arrive_and_drop();
      });
    for (auto& each : threads) each.join();
  }
  double worst = 0;
  for (int i = 0; i < m; ++i) for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int l = 0; l < k; ++l) sum += double(a[i * k + l]) * b[l * n + j];
    double apart = std::fabs(sum - c[i * n + j]);
    worst = apart == apart && apart <= worst ? worst : (apart == apart ? apart : 1e9);
  }
  return worst;
}
int main() {
  // Whole numbers: sums are exact in any order.
  printf("%g %g %g %g %g\n", off(naive, true, 1, 11, 21, 6), off(coalesced, false, 1, 11, 21, 6),
         off(divergent, false, 1, 11, 21, 6), off(tiled, false, 1, 11, 21, 6),
         off(coarsened, false, COARSE, 11, 21, 6));
}
"""


def test_the_cuda_text_is_right_with_threads_for_threads(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ to compile the CUDA text for the CPU with")
    source, program = tmp_path / "shim.cpp", tmp_path / "shim"
    source.write_text(SHIM)
    built = subprocess.run(
        [compiler, "-std=c++20", "-O1", "-pthread", "-DTILE=4", "-DCOARSE=3",
         f'-DSOURCE="{SOURCE}"', str(source), "-o", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode and "barrier: No such file" in built.stderr:
        pytest.skip("this g++ has no <barrier> (C++20)")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0 0 0 0 0\n"


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_cuda_text_compiles_for_gpus(tmp_path: Path, architecture: str) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc: on a GPU machine torch's NVRTC compiles it")
    made = subprocess.run(
        ["nvcc", f"-arch={architecture}", "-cubin", str(SOURCE), "-o", str(tmp_path / "k.cubin")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr


def test_what_the_kernels_load_is_the_closed_form() -> None:
    m = n = k = 1024
    products = m * n * k
    # Eight bytes a multiply-add; a T-th of that in tiles; A's half again by C.
    for variant in ("naive", "coalesced", "divergent"):
        assert loaded_bytes(variant, m, n, k) == 8 * products
    assert loaded_bytes("tiled", m, n, k) == 8 * products / TILE
    assert loaded_bytes("coarsened", m, n, k) == 4 * products / TILE * (1 + 1 / COARSE)
    # 32 rows of A and one element of B, against one of A and 128 bytes of B in sectors of 32.
    assert (sectors("naive"), sectors("coalesced")) == (33, 5)


def test_the_blocks_cover_the_result() -> None:
    # 65 rows take 3 blocks of 32, 257 columns take 9, or 3 where each makes 4 of them.
    assert launch_shape("naive", 65, 257) == (3, 9, 1)
    assert launch_shape("coalesced", 65, 257) == launch_shape("tiled", 65, 257) == (9, 3, 1)
    assert launch_shape("coarsened", 65, 257) == (3, 3, 1)


def test_each_slow_kernel_says_why_it_is_slow() -> None:
    def note(variant: str) -> str:
        return workloads.matmul_kernel(variant, 1024, 1024, 1024).notes[0]

    assert "touch 33 sectors of memory, 5 where coalesced" in note("naive")
    assert "half of its threads idle" in note("divergent")
    # 8·1024³ loaded over 3·4·1024² that must be: 682.7; in tiles of 32 a 32nd.
    assert "loaded 682.7 times" in note("coalesced")
    assert "loaded 21.3 times" in note("tiled")
    assert "(0.25 FLOP a byte loaded)" in note("naive")
