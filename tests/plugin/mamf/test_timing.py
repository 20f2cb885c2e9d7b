from __future__ import annotations

from time import perf_counter, sleep
from types import SimpleNamespace

import pytest

from pytest_gpuperf.mamf import timing
from pytest_gpuperf.mamf.ranges import make_grid
from pytest_gpuperf.mamf.timing import MatmulTimer, TimeOverError, check_dtype, fp32_matmuls
from pytest_gpuperf.recording.errors import RecordingError

torch = pytest.importorskip("torch")

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
SQUARES = make_grid((64,), (64,), (64,))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp8"])
def test_the_product_is_of_m_by_k_and_k_by_n(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the timed call computes, against a float32 product of its own operands."""
    monkeypatch.setattr(timing, "cores_lost", lambda: 0)  # a busy machine keeps fewer calls
    timer = MatmulTimer(CPU, dtype)
    call = timer._matmul(torch, (48, 32, 64))
    cells = dict(zip(call.__code__.co_freevars, call.__closure__, strict=True))
    a, b = (cells[name].cell_contents for name in "ab")
    assert (tuple(a.shape), tuple(b.shape)) == ((48, 64), (64, 32))
    product = call()
    expected = a.float() @ b.float()
    error = float((product.float() - expected).abs().max() / expected.abs().max())
    assert error < 0.02
    assert float(a.float().std()) == pytest.approx(1, abs=0.1)  # random, not zeros
    assert len(timer.time((48, 32, 64), 7)) == 7
    assert timer.failures == {}


def test_a_time_is_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that sleeps 3 ms takes 3 ms or somewhat more; half as many warm-ups go before."""
    count = [0]

    def call() -> None:
        count[0] += 1
        sleep(0.003)

    monkeypatch.setattr(MatmulTimer, "_matmul", lambda *_: call)
    monkeypatch.setattr(timing, "cores_lost", lambda: 0)
    taken = MatmulTimer(CPU, "fp32").time((1, 1, 1), 20)
    assert len(taken) == 20
    assert min(taken) >= 0.003
    assert min(taken) < 0.03  # a busy machine wakes late, but not always
    assert count[0] == 20 + 10


def test_long_calls_are_fewer_but_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatmulTimer, "_matmul", lambda *_: lambda: sleep(0.05))
    assert len(MatmulTimer(CPU, "fp32", shape_s=0.01).time((1, 1, 1), 100)) == 3


@pytest.mark.parametrize("given_s", [0.02, 0.07, 0.2])
def test_a_shape_is_left_at_the_call_after_which_three_more_do_not_fit(
    given_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of 50 ms: the end within the first, the second, and 100 ms, two calls, behind both."""
    made = [0]

    def call() -> None:
        made[0] += 1
        sleep(0.05)

    monkeypatch.setattr(MatmulTimer, "_matmul", lambda *_: call)
    timer = MatmulTimer(CPU, "fp32", until=perf_counter() + given_s)
    with pytest.raises(TimeOverError):
        timer.time((1, 1, 1), 100)
    assert made[0] <= (1 if given_s == 0.02 else 2)
    assert timer.failures == {}


def test_a_call_that_takes_far_longer_than_the_time_left_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4096² are 256 times 256²: where those take 50 ms, all take 3.2 s at four times the rate."""
    made: list[tuple[int, int, int]] = []

    def matmul(_: object, __: object, shape: tuple[int, int, int]) -> object:
        made.append(shape)
        return lambda: sleep(0.05 if shape[0] == 256 else 0.001)

    monkeypatch.setattr(MatmulTimer, "_matmul", matmul)
    monkeypatch.setattr(timing, "cores_lost", lambda: 0)
    with pytest.raises(TimeOverError):
        MatmulTimer(CPU, "fp32", until=perf_counter() + 3).time((4096, 4096, 8), 3)
    assert made == [(256, 256, 8)]
    assert len(MatmulTimer(CPU, "fp32", until=perf_counter() + 60).time((4096, 4096, 8), 3)) == 3
    assert made[1:] == [(256, 256, 8), (4096, 4096, 8)]


def test_a_shape_takes_no_more_calls_than_the_time_left_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20 ms a call: two seconds hold 100, and 2/3 of them are left for what is no warm-up."""
    monkeypatch.setattr(MatmulTimer, "_matmul", lambda *_: lambda: sleep(0.02))
    monkeypatch.setattr(timing, "cores_lost", lambda: 0)
    begin = perf_counter()
    taken = MatmulTimer(CPU, "fp32", until=begin + 2).time((1, 1, 1), 1000)
    assert 3 <= len(taken) <= 100 * 2 // 3
    assert perf_counter() - begin < 10  # 1,000 calls and half as many warm-ups take 30 s


def test_calls_that_slow_down_are_left_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls at once, then 0.2 s each: at the end, 0.3 s away, warm-ups are left."""
    made = [0]

    def call() -> None:
        made[0] += 1
        sleep(0.2 if made[0] > 2 else 0)

    monkeypatch.setattr(MatmulTimer, "_matmul", lambda *_: call)
    with pytest.raises(TimeOverError):
        MatmulTimer(CPU, "fp32", until=perf_counter() + 0.3).time((1, 1, 1), 1000)
    assert made[0] <= 4


def test_calls_that_lost_a_core_do_not_count_where_others_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = [0]
    calls = [0]

    def call() -> None:
        calls[0] += 1
        disturbed = calls[0] % 2
        lost[0] += disturbed
        sleep(0.05 if disturbed else 0.0005)

    monkeypatch.setattr(MatmulTimer, "_matmul", lambda *_: call)
    monkeypatch.setattr(timing, "cores_lost", lambda: lost[0])
    timer = MatmulTimer(CPU, "fp32")
    taken = timer.time((1, 1, 1), 10)
    assert len(taken) == 10
    assert sorted(taken)[5] < 0.05
    assert timer.disturbed == set()


def test_where_every_call_lost_a_core_all_count_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = iter(range(10_000))
    monkeypatch.setattr(timing, "cores_lost", lambda: next(lost))
    timer = MatmulTimer(CPU, "fp32")
    assert len(timer.time((8, 8, 8), 5)) == 15
    assert timer.disturbed == {(8, 8, 8)}


def test_a_shape_beyond_memory_is_a_failure_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2·1024² operands and a product of float32: 12 MiB."""
    monkeypatch.setattr(timing, "cores_lost", lambda: 0)
    monkeypatch.setattr(timing, "available_bytes", lambda _: 11 * 2**20)
    timer = MatmulTimer(CPU, "fp32")
    assert timer.time((1024, 1024, 1024), 3) == ()
    assert "of memory" in timer.failures[1024, 1024, 1024]
    monkeypatch.setattr(timing, "available_bytes", lambda _: 12 * 2**20)
    assert len(timer.time((1024, 1024, 1024), 3)) == 3


def test_what_the_library_refuses_is_a_failure_with_its_first_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED when calling\nmore")

    monkeypatch.setattr(MatmulTimer, "_matmul", lambda *_: refuse)
    timer = MatmulTimer(CPU, "fp32")
    assert timer.time((8, 8, 8), 3) == ()
    assert timer.failures == {(8, 8, 8): "CUBLAS_STATUS_NOT_SUPPORTED when calling"}


def test_the_programs_random_numbers_are_not_drawn() -> None:
    before = torch.random.get_rng_state()
    MatmulTimer(CPU, "fp32").time((16, 16, 16), 3)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("dtype", "within"), [("tf32", "tf32"), ("fp32", "ieee")])
@pytest.mark.parametrize("before", ["none", "tf32", "ieee"])
def test_tf32_is_switched_and_restored_whatever_happens(
    dtype: str, within: str, before: str
) -> None:
    """torch's own setting, which is there without a GPU too."""
    matmul = torch.backends.cuda.matmul
    saved = matmul.fp32_precision
    seen = []

    def interrupted() -> None:
        with fp32_matmuls(dtype, CUDA):
            seen.append(matmul.fp32_precision)
            raise KeyboardInterrupt

    try:
        matmul.fp32_precision = before
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert seen == [within]
        assert matmul.fp32_precision == before
        with fp32_matmuls("bf16", CUDA):
            assert matmul.fp32_precision == before
    finally:
        matmul.fp32_precision = saved


def test_an_older_torch_has_the_setting_by_its_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    matmul = SimpleNamespace(allow_tf32=False)
    fake = SimpleNamespace(backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul)))
    monkeypatch.setattr(timing, "import_torch", lambda: fake)
    with fp32_matmuls("tf32", CUDA):
        assert matmul.allow_tf32 is True
    assert matmul.allow_tf32 is False


@pytest.mark.parametrize(
    ("capability", "hip", "dtype", "told"),
    [((7, 5), None, "tf32", "tf32 needs compute capability 8.0, this GPU has 7.5"),
     ((8, 0), None, "fp8", "fp8 needs compute capability 8.9, this GPU has 8.0"),
     ((9, 4), "6.2", "tf32", "no tf32 on AMD"),
     ((8, 9), None, "fp8", ""), ((9, 0), None, "tf32", ""), ((9, 4), "6.2", "fp8", "")],
)  # fmt: skip
def test_what_a_gpu_cannot_do_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int], hip: str | None, dtype: str, told: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    if not told:
        check_dtype(dtype, CUDA, SQUARES)
        return
    with pytest.raises(RecordingError, match=told):
        check_dtype(dtype, CUDA, SQUARES)


def test_fp8_on_a_gpu_takes_multiples_of_16_of_n_and_k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    check_dtype("fp8", CUDA, make_grid((17,), (32,), (48,)))
    for n, k in ((32, 40), (40, 32)):
        with pytest.raises(RecordingError, match="multiples of 16, not 40"):
            check_dtype("fp8", CUDA, make_grid((16,), (n,), (k,)))


def test_tf32_on_a_cpu_is_refused_with_the_mend() -> None:
    with pytest.raises(RecordingError, match="on a CPU take --dtype fp32"):
        check_dtype("tf32", CPU, SQUARES)
