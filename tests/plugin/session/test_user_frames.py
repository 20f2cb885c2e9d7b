"""An exception of the workload is shown as if we had not been there."""

from __future__ import annotations

import traceback
from typing import NoReturn

import pytest

from pytest_gpuperf.recording.sampling import Workload
from pytest_gpuperf.session import places
from pytest_gpuperf.session.user_frames import without_our_frames


def inner() -> NoReturn:
    raise KeyError("theirs")


def workload() -> None:
    inner()


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def caught_in(function: object, kind: type[BaseException]) -> BaseException:
    """The exception as it arrives at the caller of `function`, whose own frame is cut off."""
    with pytest.raises(kind) as caught:
        function()  # type: ignore[operator]
    error = caught.value
    return error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None)


def test_frames_of_the_recording_ahead_of_the_workload_are_dropped() -> None:
    error = caught_in(Workload(workload), KeyError)
    assert frames(error) == ["__call__", "workload", "inner"]
    cleaned = without_our_frames(error)
    assert cleaned is error
    assert frames(cleaned) == ["workload", "inner"]


def test_a_workload_written_in_c_leaves_no_frame_of_ours() -> None:
    error = caught_in(Workload(iter([]).__next__), StopIteration)
    assert frames(error) == ["__call__"]
    assert frames(without_our_frames(error)) == []


def test_an_exception_of_our_own_keeps_its_traceback() -> None:
    error = caught_in(lambda: places.folder_name(None), TypeError)  # type: ignore[arg-type]
    before = frames(error)
    assert "folder_name" in before
    assert frames(without_our_frames(error)) == before
