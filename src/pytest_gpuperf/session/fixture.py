"""The object that the fixture ``gpuperf`` hands to a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import pytest

from gpuperf_analyzers.fit_error import FitError
from gpuperf_analyzers.limits import LimitError
from pytest_gpuperf.session.keeper import DISABLED, Keeper
from pytest_gpuperf.session.measurement import Measurement

if TYPE_CHECKING:
    from gpuperf_analyzers.batch_fit import BatchFit
    from pytest_gpuperf.recording.regions import Region

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


class Gpuperf(Keeper):
    """Measures what it is given, and keeps the results for the marker's limits to judge.

    Attributes
    ----------
    result
        The latest :class:`Measurement`.
    results
        All of this test, in order.
    extra_info
        Whatever the test wants to be kept beside the numbers in the report: a dict of its own.
    kept
        The list behind ``results``, which the session judges and tidies.
    ended
        Whether the test has been judged: what is measured later would be judged by nobody.
    """

    def __call__(self, fn: Callable[..., T], /, *args: Any, name: str = "", **kwargs: Any) -> T:
        """Measure ``fn(*args, **kwargs)`` and return what its first call returned.

        Parameters
        ----------
        fn
            The workload.
        name
            Tells several measurements of one test apart. A workload with a keyword ``name`` of
            its own goes through :meth:`run` and ``functools.partial``.
        """
        __tracebackhide__ = True
        return self.run(partial(fn, *args, **kwargs) if args or kwargs else fn, name=name)

    def run(
        self,
        fn: Callable[[], T],
        *,
        setup: Callable[[], object] | None = None,
        teardown: Callable[[], object] | None = None,
        items: float | None = None,
        tokens: float | None = None,
        flops: float | str | None = None,
        bytes: float | str | None = None,  # noqa: A002 - the marker's own word
        estimate: object = None,
        warmup: str | None = None,
        max_time: str | None = None,
        steps: int | None = None,
        name: str = "",
    ) -> T:
        """Measure ``fn()`` and return what its first call returned.

        Parameters
        ----------
        fn
            The workload.
        setup, teardown
            Called before and after each call of `fn`, outside the timed part.
        items, tokens
            How many one call handles, for the throughput.
        estimate
            Bytes that the peak of memory is estimated at, or what estimates it (a
            ``StepEstimate`` of ``gpuperf_analyzers.estimate``), for ``max_over_estimate``.
        flops, bytes, warmup, max_time, steps
            As in the marker, for this measurement only.
        name
            Tells several measurements of one test apart.

        Raises
        ------
        pytest.UsageError
            `fn` is not callable, or a keyword cannot be understood.
        """
        __tracebackhide__ = True
        self._begin(name)
        found = self._ready(fn, name)
        written: dict[str, object] = {
            "items": items, "tokens": tokens, "flops": flops, "bytes": bytes, "estimate": estimate,
        }  # fmt: skip
        times = {"warmup": warmup, "max_time": max_time, "steps": steps}
        declaration = self._declared(**found.beside({**written, **times}))
        _refuse_no_functions(setup=setup, teardown=teardown)
        if self._run.disabled:
            return cast("T", self._once(found.step, setup, teardown, name))
        from pytest_gpuperf.session.measuring import measure

        request = self._timed_request(name, declaration, found)
        return cast("T", self._measured(name, measure, found.step, setup, teardown, request))

    def ratio(
        self,
        fast: Callable[[], A],
        slow: Callable[[], B],
        *,
        min_speedup: object = None,
        setup: Callable[[], object] | None = None,
        teardown: Callable[[], object] | None = None,
        warmup: str | None = None,
        max_time: str | None = None,
        steps: int | None = None,
        name: str = "",
    ) -> tuple[A, B]:
        """Measure `fast` against `slow`, timed in turn; return what their first calls returned.

        The result is that of `fast`, with the metric ``speedup``: the median of the pairs' ratios
        slow / fast, and its 95% interval.

        Parameters
        ----------
        fast, slow
            The workloads.
        min_speedup
            ``2``, ``"2x"`` or a mapping by device, as in the marker.
        setup, teardown
            Called before and after each call of either, outside the timed part.
        warmup, max_time, steps
            As in the marker, for this measurement only; each of the two is warmed up so long.
        name
            Tells several measurements of one test apart.

        Raises
        ------
        pytest.UsageError
            One of the two is not callable, or a keyword cannot be understood.
        """
        __tracebackhide__ = True
        self._begin(name)
        from pytest_gpuperf.session.pairs import measure_pair, with_speedup

        first, second = self._ready(fast, name), self._ready(slow, name)
        times = {"warmup": warmup, "max_time": max_time, "steps": steps}
        declaration = self._declared(**first.beside(times))
        try:
            limits = with_speedup(declaration.limits, min_speedup, self._run.metrics())
        except LimitError as error:
            raise pytest.UsageError(f"gpuperf.ratio: {error}") from None
        _refuse_no_functions(setup=setup, teardown=teardown)
        if self._run.disabled:
            value = self._once(first.step, setup, teardown, name)
            self.kept.pop()
            return cast("tuple[A, B]", (value, self._once(second.step, setup, teardown, name)))
        request = self._timed_request(name, replace(declaration, limits=limits), first, second)
        pair = (first.step, second.step)
        return cast(
            "tuple[A, B]", self._measured(name, measure_pair, pair, setup, teardown, request)
        )

    def ddp(
        self,
        make_step: Callable[[int, int], Callable[[], object]],
        *,
        world_size: int,
        backend: Literal["auto", "gloo", "nccl"] = "auto",
        items: float | None = None,
        tokens: float | None = None,
        flops: float | str | None = None,
        warmup: str | None = None,
        max_time: str | None = None,
        steps: int | None = None,
        timeout: str | None = None,
        name: str = "",
    ) -> None:
        """Measure a step that runs on `world_size` ranks at once, one process each.

        Parameters
        ----------
        make_step
            ``make_step(rank, world_size)`` returns the step; a function at module level, which
            each rank's process loads by its file.
        world_size
            Number of ranks.
        backend
            ``nccl`` on GPUs, ``gloo`` on the CPU; ``auto`` takes what is here.
        items, tokens
            How many one step of one rank handles, for the throughput.
        flops, warmup, max_time, steps, timeout
            As in the marker, for this measurement only.
        name
            Tells several measurements of one test apart.

        Raises
        ------
        pytest.UsageError
            `make_step` is a closure or a lambda, or the ranks asked for cannot be had.
        """
        __tracebackhide__ = True
        self._begin(name)
        declaration = self._declared(
            items=items,
            tokens=tokens,
            flops=flops,
            warmup=warmup,
            max_time=max_time,
            steps=steps,
            timeout=timeout,
        )
        from pytest_gpuperf.recording import RecordingError
        from pytest_gpuperf.session.ddp_failure import RankFailure
        from pytest_gpuperf.session.measuring_ranks import measure_ranks, run_ranks_once

        request = self._request(name, declaration)
        try:
            if self._run.disabled:
                run_ranks_once(make_step, world_size, backend, request)
                self._keep(Measurement(name=name, reason=DISABLED))
            else:
                self._keep(measure_ranks(make_step, world_size, backend, request))
        except RecordingError as error:
            self._refuse(name, str(error))
        except RankFailure as failure:
            if failure.skipped is not None:
                raise pytest.skip.Exception(f"rank {failure.rank}: {failure.skipped}") from None
            raise pytest.fail.Exception(str(failure), pytrace=False) from None
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None

    def fit_memory(
        self, step: Callable[[int], object], *, sizes: Sequence[int], memory: str | None = None
    ) -> BatchFit:
        """Measure the peak of ``step(batch)`` at `sizes`, and fit ``model + batch x per_sample``.

        No limit of the marker is judged by it: assert on what it returns.

        Parameters
        ----------
        step
            One step on a batch of the given size.
        sizes
            Two different batch sizes or more; three tell whether memory is linear in the batch.
        memory
            What the device may hold (``"24GiB"``), where that is not the device's own.

        Raises
        ------
        pytest.UsageError
            `sizes` or `memory` cannot be understood.
        """
        __tracebackhide__ = True
        from pytest_gpuperf.recording import RecordingError, fit_memory
        from pytest_gpuperf.session.device_lock import device_lock

        if self._run.disabled:
            pytest.skip(DISABLED)
        device = self.device
        try:
            with device_lock([device]):
                found: BatchFit = fit_memory(step, sizes=sizes, device=device, memory=memory)
                return found
        except RecordingError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        except FitError as error:
            raise pytest.UsageError(str(error)) from None

    def region(self, name: str, **limits: object) -> Region:
        """A part of the workload, with limits on its time and on what the trace shows of it.

        ``max_step_time="2ms"``, ``max_kernel_launches=40``, ``min_overlap=0.5`` and the like.

        Raises
        ------
        pytest.UsageError
            A limit that cannot be understood.
        """
        __tracebackhide__ = True
        from pytest_gpuperf.recording.regions import region

        if not isinstance(name, str) or not name:
            raise pytest.UsageError(f"gpuperf.region: {name!r} is not a name")
        if name not in self._region_limits and limits:
            from pytest_gpuperf.session.judging import region_limits

            self._region_limits[name] = region_limits(name, limits, self._run.metrics())
        return region(name)


def _refuse_no_functions(**functions: object) -> None:
    __tracebackhide__ = True
    for word, function in functions.items():
        if function is not None and not callable(function):
            raise pytest.UsageError(f"gpuperf: {word}={function!r} is not a function")
