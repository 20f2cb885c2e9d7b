"""What one test has measured, and how a measurement of it is asked for, kept or refused."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

from gpuperf_analyzers.limits import LimitError, Verdict
from pytest_gpuperf.session.clock import REPLACED, clock_is_replaced
from pytest_gpuperf.session.declaration import Declaration, with_call
from pytest_gpuperf.session.measurement import Measurement
from pytest_gpuperf.session.places import folder_name
from pytest_gpuperf.session.user_frames import without_our_frames

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.limits import Limit
    from pytest_gpuperf.session.measuring import Request
    from pytest_gpuperf.session.ready import Ready
    from pytest_gpuperf.session.run import Run

T = TypeVar("T")

DISABLED = "measuring is disabled (--gpuperf-disable)"


class Keeper:
    """The measurements of one test, and the way to another one.

    The fixture's methods stand on it: what they have in common is here, what a user may ask for
    is there.

    Attributes
    ----------
    test
        The node id.
    declaration
        What the marker asks for.
    kept
        The list behind ``results``, which the session judges and tidies.
    called
        Whether the test has asked for a measurement.
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
