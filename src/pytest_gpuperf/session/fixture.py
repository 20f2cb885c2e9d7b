"""The object that the fixture ``gpuperf`` hands to a test."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast

import pytest

from gpuperf_analyzers.fit_error import FitError
from gpuperf_analyzers.limits import LimitError, Verdict
from pytest_gpuperf.session.clock import REPLACED, clock_is_replaced
from pytest_gpuperf.session.declaration import Declaration, with_call
from pytest_gpuperf.session.measurement import Measurement
from pytest_gpuperf.session.places import folder_name
from pytest_gpuperf.session.user_frames import without_our_frames

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.batch_fit import BatchFit
    from gpuperf_analyzers.limits import Limit
    from pytest_gpuperf.recording.regions import Region
    from pytest_gpuperf.session.measuring import Request
    from pytest_gpuperf.session.ready import Ready
    from pytest_gpuperf.session.run import Run

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

DISABLED = "measuring is disabled (--gpuperf-disable)"


class Gpuperf:
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

    def __init__(self, test: str, declaration: Declaration, run: Run) -> None:
        self.test = test
        self.declaration = declaration
        self.kept: list[Measurement] = []
        self.called = False
        self.ended = False
        self._extra_info: dict[str, object] = {}
        self._asked = 0
        self._names: Counter[str] = Counter()
        self._run = run
        self._device: torch.device | None = None
        self._region_limits: dict[str, tuple[Limit, ...]] = {}

    @property
    def result(self) -> Measurement:
        """The latest measurement.

        Raises
        ------
        RuntimeError
            Nothing has been measured yet.
        """
        if not self.kept:
            raise RuntimeError("gpuperf.result: nothing has been measured yet in this test")
        return self.kept[-1]

    @property
    def results(self) -> tuple[Measurement, ...]:
        """All measurements of this test, in order."""
        return tuple(self.kept)

    @property
    def extra_info(self) -> dict[str, object]:
        """What the test wants to be kept beside the numbers in the report."""
        return self._extra_info

    @extra_info.setter
    def extra_info(self, info: Mapping[str, object]) -> None:
        __tracebackhide__ = True
        if not isinstance(info, Mapping):
            raise pytest.UsageError(f"gpuperf.extra_info: {info!r} is not a mapping")
        self._extra_info = dict(info)

    @property
    def device(self) -> torch.device:
        """The device to measure on: ``cuda:0`` where there is one, else ``cpu``, or as asked for.

        A marker that asks for a device which is not here skips its test; an option that does
        fails it, since then no test could run.
        """
        __tracebackhide__ = True
        if self._device is None:
            from pytest_gpuperf.recording import RecordingError, TorchMissingError, resolve_device

            try:
                self._device = resolve_device(self.declaration.device)
            except TorchMissingError as error:
                pytest.skip(str(error))
            except RecordingError as error:
                if self.declaration.device_asked == "marker":
                    pytest.skip(f"{Verdict.UNMEASURED}: {error}")
                raise pytest.fail.Exception(str(error), pytrace=False) from None
        return self._device

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

    def _begin(self, name: str) -> None:
        """Refuse what cannot be kept: a name that is no text, a test that is over."""
        __tracebackhide__ = True
        if not isinstance(name, str):
            raise pytest.UsageError(f"gpuperf: name={name!r} is not a text")
        if self.ended:
            raise pytest.UsageError(
                "gpuperf: this test has been judged already: measure in its body or its set-up"
            )
        self.called = True

    def _declared(self, **written: object) -> Declaration:
        __tracebackhide__ = True
        try:
            return with_call(self.declaration, written)
        except LimitError as error:
            raise pytest.UsageError(f"gpuperf: {error}") from None

    def _ready(self, fn: object, name: str) -> Ready:
        """`fn` ready to be called; a workload that cannot run here skips, a wrong one fails."""
        __tracebackhide__ = True
        from pytest_gpuperf.session.ready import is_workload, ready

        if not is_workload(fn):
            try:
                return ready(fn, lambda: self.device)
            except ValueError as error:
                raise pytest.UsageError(str(error)) from None
        from pytest_gpuperf.workloads.workload import UnavailableError, WrongResultError

        try:
            return ready(fn, lambda: self.device)
        except UnavailableError as error:
            pytest.skip(f"{Verdict.UNMEASURED}: {error}")
        except WrongResultError as error:
            self._refuse(name, str(error))

    def _timed_request(self, name: str, declaration: Declaration, *found: Ready) -> Request:
        """What to measure, where times of it would be worth anything."""
        __tracebackhide__ = True
        if clock_is_replaced():  # before anything of ours takes it for the machine's
            self._refuse(name, REPLACED)
        untimed = next((each.untimed for each in found if each.untimed), "")
        if untimed:
            pytest.skip(f"{Verdict.UNMEASURED}: right, by its reference; {untimed}")
        notes = tuple(note for each in found for note in each.notes)
        return replace(self._request(name, declaration), notes=notes)

    def _measured(
        self, name: str, measure: Callable[..., tuple[Any, Measurement]], *given: object
    ) -> Any:
        """What `measure` gives for the test, its measurement kept."""
        __tracebackhide__ = True
        from pytest_gpuperf.recording import RecordingError

        try:
            value, measurement = measure(*given)
        except RecordingError as error:
            self._refuse(name, str(error))
        except BaseException as error:  # noqa: BLE001 - passed on, untouched but for our frames
            raise without_our_frames(error)  # noqa: B904 - it is the same exception
        self._keep(measurement)
        return value

    def _once(
        self,
        fn: Callable[[], T],
        setup: Callable[[], object] | None,
        teardown: Callable[[], object] | None,
        name: str,
    ) -> T:
        __tracebackhide__ = True
        if setup is not None:
            setup()
        value = fn()
        if teardown is not None:
            teardown()
        self._keep(Measurement(name=name, reason=DISABLED))
        return value

    def _request(self, name: str, declaration: Declaration) -> Request:
        from pytest_gpuperf.session.ddp_joined import torchrun_place
        from pytest_gpuperf.session.measuring import Request

        folder = self._run.traces / folder_name(self.test)
        if not self._asked and torchrun_place() is None:
            shutil.rmtree(folder, ignore_errors=True)  # what an earlier run of this test left
        place = f"{self._asked}" + (f"-{folder_name(name)}" if name else "")
        self._asked += 1
        self._names[name] += 1
        again = f"#{self._names[name]}" if self._names[name] > 1 else ""
        regions: Mapping[str, tuple[Limit, ...]] = self._region_limits
        return Request(
            name=name,
            declaration=declaration,
            device=self.device,
            folder=folder / place,
            config=self._run.config(),
            region_limits=regions,
            test=self.test,
            stored_as=f"{name}{again}",
            baselines=self._run.baselines(),
        )

    def _refuse(self, name: str, reason: str) -> NoReturn:
        """End the test: there is no value that the rest of its body could go on with."""
        __tracebackhide__ = True
        self._keep(Measurement(name=name, verdict=Verdict.INVALID, reason=reason))
        raise pytest.fail.Exception(f"{Verdict.INVALID} {reason}", pytrace=False) from None

    def _keep(self, measurement: Measurement) -> None:
        self.kept.append(measurement)


def _refuse_no_functions(**functions: object) -> None:
    __tracebackhide__ = True
    for word, function in functions.items():
        if function is not None and not callable(function):
            raise pytest.UsageError(f"gpuperf: {word}={function!r} is not a function")
