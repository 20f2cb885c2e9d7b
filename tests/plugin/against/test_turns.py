"""Two sides that take turns: strict alternation, and going on alone where the other one ends."""

import os
import threading
from contextlib import closing

import pytest

from pytest_gpuperf.recording.turns import Turns


def two():
    """Both sides, connected: the one that begins and the other."""
    to_second, to_first = os.pipe(), os.pipe()
    return Turns(to_first[0], to_second[1], first=True), Turns(
        to_second[0], to_first[1], first=False
    )


def test_slices_alternate_and_the_first_waits_until_the_second_is_ready():
    first, second = two()
    seen: list[str] = []

    def measure(side: Turns, name: str) -> None:
        for test in range(2):
            side.enter()
            for part in range(3):
                side.take()
                seen.append(f"{name}{test}{part}")
                side.give()
            side.take()
            seen.append(f"{name}{test}!")  # what follows the slices has the turn too
        side.leave()

    threads = [
        threading.Thread(target=measure, args=(side, name))
        for side, name in ((first, "a"), (second, "b"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    slices = [entry for entry in seen if not entry.endswith("!")]
    assert slices == [f"{n}{t}{p}" for t in range(2) for p in range(3) for n in "ab"]


def test_the_one_that_is_left_goes_on_alone():
    first, second = two()
    second.leave()
    first.enter()
    for _ in range(3):
        first.take()
        first.give()
    first.leave()


def test_the_second_of_a_first_that_never_measures_goes_on():
    first, second = two()
    first.leave()
    second.enter()
    second.take()
    second.leave()


@pytest.mark.parametrize("which", [0, 1])
def test_leaving_twice_is_no_error(which):
    sides = two()
    with closing(type("C", (), {"close": lambda _: sides[1 - which].leave()})()):
        sides[which].leave()
        sides[which].leave()
