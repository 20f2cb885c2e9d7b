"""Categories of memory, worked out by hand on events that are drawn here."""

from __future__ import annotations

import pytest

from gpuperf_analyzers.memory_block import CATEGORIES, Cause, MemoryBlock, parse_memory_block
from gpuperf_analyzers.memory_categories import Event, Held, Recorded, categorized


def at_peak(found: MemoryBlock) -> dict[str, int]:
    return {name: size for name, size in found.at_peak.items() if size}


HELD = (
    Held(1, 400, "parameter", "net.weight"),
    Held(2, 80, None, "tensor 20"),
    Held(3, 7, None, "tensor 7"),
)


def training() -> Recorded:
    """A forward at 10 and 20, a backward from 30, an optimizer from 60; read by the forward: 2."""
    return Recorded(
        begin_ns=0,
        held=HELD,
        read=frozenset({2}),
        events=[
            Event(10, 101, 1000, "forward", "relu"),  # held for the backward: activation
            Event(20, 102, 500, "forward", "norm"),
            Event(25, 102, -500, "forward", "norm"),  # gone before it: temporary
            Event(40, 103, 400, "backward", "mm"),  # seen as a gradient later
            Event(41, 104, 300, "backward", "mm"),  # not seen: temporary
            Event(50, 101, -1000, "backward", "mm"),
            Event(51, 104, -300, "backward", "mm"),
            Event(60, 105, 800, "optimizer", "Adam.step"),  # seen as state
            Event(61, 106, 90, "optimizer", "Adam.step"),
            Event(62, 106, -90, "optimizer", "Adam.step"),
        ],
        backward_ns=[30, 45],
        seen=[(55, {103: ("gradient", "net.weight")}), (70, {105: ("optimizer", "Adam state")})],
    )


def test_every_byte_at_the_peak_has_its_category() -> None:
    # Held 487; after the event at 41: 1000 + 400 + 300 more.
    found = categorized(training())
    assert found.start_bytes == 487
    assert found.peak_bytes == 487 + 1700 == sum(found.at_peak.values())
    assert at_peak(found) == {
        "parameter": 400, "gradient": 400, "activation": 1000, "input": 80, "temporary": 300,
        "unknown": 7,
    }  # fmt: skip


def test_the_most_of_each_category_at_any_time() -> None:
    largest = categorized(training()).largest
    assert largest == {
        "parameter": 400, "gradient": 400, "optimizer": 800, "activation": 1000, "input": 80,
        "temporary": 500, "unknown": 7,
    }  # fmt: skip


def test_over_time() -> None:
    found = categorized(training())
    assert found.time_us == (
        0,
        0.010,
        0.020,
        0.025,
        0.040,
        0.041,
        0.050,
        0.051,
        0.060,
        0.061,
        0.062,
    )
    assert found.over_time["activation"] == (0, *[1000] * 5, *[0] * 5)
    assert found.over_time["temporary"] == (0, 0, 500, 0, 0, 300, 300, 0, 0, 90, 0)
    assert set(found.over_time) == set(CATEGORIES)


def test_the_places_that_hold_the_most() -> None:
    found = categorized(training())
    assert found.causes[:3] == (
        Cause("activation", "relu", 1000, 1),
        Cause("gradient", "net.weight", 400, 1),
        Cause("parameter", "net.weight", 400, 1),
    )
    # The optimizer's state is not there at the peak, and has its causes all the same.
    assert Cause("optimizer", "Adam state", 800, 1) in found.at_largest
    assert Cause("temporary", "norm", 500, 1) in found.at_largest


def test_what_is_not_made_from_parameters_is_an_input_where_the_model_reads_it() -> None:
    batch = Event(10, 101, 64, "forward", "randn", from_parameters=False, read_by_model=True)
    mask = Event(11, 102, 32, "forward", "arange", from_parameters=False)
    layer = Event(12, 103, 16, "forward", "linear")
    found = categorized(Recorded(0, (), [batch, mask, layer], backward_ns=[20]))
    assert at_peak(found) == {"input": 64, "temporary": 32, "activation": 16}


def test_without_any_parameter_what_the_backward_waits_for_is_activation() -> None:
    made = Event(10, 101, 64, "forward", "sin", from_parameters=False)
    found = categorized(Recorded(0, (), [made], backward_ns=[20]))
    assert at_peak(found) == {"activation": 64}


def test_without_a_backward_nothing_is_an_activation() -> None:
    found = categorized(Recorded(0, HELD[:1], [Event(10, 101, 64, "forward", "linear")]))
    assert at_peak(found) == {"parameter": 400, "temporary": 64}


def test_an_address_that_is_used_again_is_another_memory() -> None:
    # The identity seen at 55 is of what lives at the address then.
    events = [
        Event(10, 101, 100, "forward", "a"),
        Event(20, 101, -100, "forward", "a"),
        Event(40, 101, 200, "backward", "b"),
    ]
    found = categorized(
        Recorded(0, (), events, backward_ns=[30], seen=[(55, {101: ("gradient", "w")})])
    )
    assert found.largest["gradient"] == 200
    assert found.largest["temporary"] == 100


def test_the_end_of_memory_older_than_the_steps() -> None:
    found = categorized(Recorded(0, HELD, [Event(10, 3, -7), Event(11, 200, 1000)]))
    assert found.largest["unknown"] == 87  # nothing read the one at 2
    assert found.peak_bytes == 480 + 1000


def test_no_event_at_all() -> None:
    found = categorized(Recorded(0, HELD, []))
    assert found.peak_bytes == found.start_bytes == 487
    assert categorized(Recorded(0, (), [])).peak_bytes == 0


def test_a_long_record_is_thinned_and_keeps_its_peak() -> None:
    events = []
    for i in range(5000):
        events += [Event(2 * i, 9, 10 + (i == 3333)), Event(2 * i + 1, 9, -10 - (i == 3333))]
    found = categorized(Recorded(0, (), events))
    assert len(found.time_us) <= 240
    assert max(found.over_time["temporary"]) == found.peak_bytes == 11


def test_the_block_comes_back_from_json_as_it_was() -> None:
    import json
    from dataclasses import asdict

    found = categorized(training())
    assert parse_memory_block(json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize(
    "raw",
    [
        3,
        {"peak_bytes": -1},
        {"peak_bytes": True},
        {"peak_bytes": 2**70},
        {"at_peak": {"nonsense": 1}},
        {"largest": []},
        {"over_time": {"input": [1, "2"]}},
        {"time_us": [float("nan")]},
        {"causes": [{"category": "input", "where": 4, "bytes": 1, "count": 1}]},
        {"levels": {"0": 1}},
    ],
)
def test_a_block_that_is_none_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="gpuperf block"):
        parse_memory_block(raw)
