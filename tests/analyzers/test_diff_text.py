"""What a failing gate prints: the sum, what explains it, counts, slow steps, caveats."""

from __future__ import annotations

from gpuperf_analyzers.diff import OpRow, OpTable, Part, StepTime, diff, regression_text


def row(
    name: str,
    us: list[int],
    kernel: str = "",
    *,
    syncs: int = 0,
    launches: int = 0,
    size: int = 0,
) -> OpRow:
    part = Part("compute", kernel or f"k_{name}", len(us), size, tuple(1000 * t for t in us))
    path = tuple(name.split("/"))
    return OpRow(path, "64x64", "float", len(us), launches or len(us), syncs, (part,))


def table(*rows: OpRow, idle: list[int], **fields: object) -> OpTable:
    part = Part("idle", "host-bound", 0, 0, tuple(1000 * t for t in idle))
    lengths = [sum(p.ns[i] for r in rows for p in r.parts) + part.ns[i] for i in range(len(idle))]
    steps = tuple(StepTime(f"ProfilerStep#{i}", "", ns) for i, ns in enumerate(lengths))
    known = {"device_name": "NVIDIA H100", "device_type": "cuda", "world_size": None, "ranks": ()}
    return OpTable(
        stepped=True, shapes_recorded=True, steps=steps, rows=rows, idle=(part,),
        **{**known, **fields},  # type: ignore[arg-type]
    )  # fmt: skip


def test_the_text_says_how_much_and_what_explains_it_and_its_lines_add_up() -> None:
    before = table(
        row("aten::mm", [500, 500]), row("aten::relu", [200, 200]), row("aten::add", [90, 90]),
        row("aten::mul", [100, 100]), idle=[110, 110],
    )  # fmt: skip
    after = table(
        row("aten::mm", [600, 600]), row("aten::relu", [240, 240]), row("aten::add", [98, 98]),
        row("aten::mul", [90, 90]), idle=[112, 112],
    )  # fmt: skip
    # 1000 to 1140: mm +100, relu +40, add +8, and mul -10 with idle +2 among the others.
    assert regression_text(diff(before, after)).splitlines() == [
        "step time 1.000 ms → 1.140 ms: +140.0 µs (+14.0%), means of 2 and 2 steps",
        "  +100.0 µs (71%)  aten::mm 64x64: 500.0 µs → 600.0 µs",
        "  +40.00 µs (29%)  aten::relu 64x64: 200.0 µs → 240.0 µs",
        "  +8.000 µs (6%)  aten::add 64x64: 90.00 µs → 98.00 µs",
        "  −8.000 µs (−6%)  2 other parts",
    ]


def test_top_is_how_many_parts_are_named() -> None:
    before = table(row("aten::mm", [500]), row("aten::relu", [200]), idle=[0])
    after = table(row("aten::mm", [600]), row("aten::relu", [250]), idle=[0])
    assert regression_text(diff(before, after), top=1).splitlines()[1:] == [
        "  +100.0 µs (67%)  aten::mm 64x64: 500.0 µs → 600.0 µs",
        "  +50.00 µs (33%)  1 other part",
    ]


def test_an_added_wait_is_named_with_its_op() -> None:
    before = table(row("aten::item/aten::_local_scalar_dense", [5]), idle=[10])
    after = table(row("aten::item/aten::_local_scalar_dense", [5], syncs=1), idle=[90])
    lines = regression_text(diff(before, after)).splitlines()
    assert lines[1] == "  +80.00 µs (100%)  idle, host-bound: 10.00 µs → 90.00 µs"
    assert lines[2] == (
        "  host syncs 0 → 1 a step: above all aten::_local_scalar_dense 64x64 in aten::item"
    )


def test_added_launches_and_bytes_are_named_with_their_op() -> None:
    before = table(row("a", [5], launches=10), row("b", [5], launches=3), idle=[0])
    after = table(row("a", [5], launches=9), row("b", [5], launches=7, size=2048), idle=[0])
    lines = regression_text(diff(before, after)).splitlines()
    assert lines == [
        "step time 10.00 µs before and after, means of 1 and 1 steps",
        "  launches 13 → 16 a step: above all b 64x64",
        "  bytes copied or communicated 0 B → 2.000 KiB a step: above all b 64x64",
    ]


def test_ops_that_came_and_went_are_named_however_short() -> None:
    before = table(row("aten::mm", [500]), row("aten::relu", [1]), idle=[0])
    after = table(row("aten::mm", [900]), *(row(f"op{i}", [9 - i]) for i in range(5)), idle=[0])
    lines = regression_text(diff(before, after), top=1).splitlines()
    assert lines[3:5] == [
        "  new: op0 64x64, op1 64x64, op2 64x64 and 2 more",
        "  gone: aten::relu 64x64",
    ]


def test_a_replaced_kernel_is_named() -> None:
    before = table(row("aten::mm", [500], "ampere_tensorop_gemm"), idle=[0])
    after = table(row("aten::mm", [900], "sgemm_128x64"), idle=[0])
    assert regression_text(diff(before, after)).splitlines()[1] == (
        "  +400.0 µs (100%)  aten::mm 64x64: 500.0 µs → 900.0 µs; "
        "sgemm_128x64 instead of ampere_tensorop_gemm"
    )


def test_one_slow_step_is_named_with_what_took_its_time() -> None:
    before = table(row("aten::mm", [100, 100, 100]), idle=[0, 0, 0])
    after = table(row("aten::mm", [100, 200, 300]), idle=[0, 0, 0])
    lines = regression_text(diff(before, after)).splitlines()
    most = "times the median step before: above all aten::mm 64x64"
    assert lines[2:] == [
        f"  ProfilerStep#2 takes 3 {most} (+200.0 µs)",
        f"  ProfilerStep#1 takes 2 {most} (+100.0 µs)",
    ]


def test_steps_that_are_all_slow_are_one_line() -> None:
    before = table(row("aten::mm", [100, 100]), idle=[0, 0])
    after = table(row("aten::mm", [200, 210]), idle=[0, 0])
    assert regression_text(diff(before, after)).splitlines()[2:] == [
        "  all 2 steps take 1.5 times the median step before, or more"
    ]


def test_two_places_of_one_op_are_told_apart() -> None:
    before = table(row("first/aten::mm", [100]), row("second/aten::mm", [100]), idle=[0])
    after = table(row("first/aten::mm", [150]), row("second/aten::mm", [120]), idle=[0])
    text = regression_text(diff(before, after))
    assert "aten::mm 64x64 in first: " in text
    assert "aten::mm 64x64 in second: " in text


def test_an_improvement_names_what_got_faster() -> None:
    before = table(row("aten::mm", [500]), row("aten::relu", [200]), idle=[0])
    after = table(row("aten::mm", [300]), row("aten::relu", [210]), idle=[0])
    assert regression_text(diff(before, after)).splitlines()[:2] == [
        "step time 700.0 µs → 510.0 µs: −190.0 µs (−27.1%), means of 1 and 1 steps",
        "  −200.0 µs (105%)  aten::mm 64x64: 500.0 µs → 300.0 µs",
    ]


def test_other_hardware_is_said_in_the_text() -> None:
    before = table(row("aten::mm", [500]), idle=[0])
    after = table(row("aten::mm", [700]), idle=[0], device_name="Tesla V100")
    assert regression_text(diff(before, after)).splitlines()[-1] == (
        "  ! other hardware: NVIDIA H100 before, Tesla V100 after"
    )


def test_nothing_changed_is_one_line() -> None:
    same = table(row("aten::mm", [500]), idle=[3])
    assert regression_text(diff(same, same)) == (
        "nothing changed: every op has the same time, kernels and counts"
    )


def test_a_name_from_a_trace_cannot_colour_a_terminal() -> None:
    before = table(row("aten::mm", [500]), idle=[0])
    after = table(row("aten::mm", [500]), row("\x1b[31mred\n", [50]), idle=[0])
    text = regression_text(diff(before, after))
    assert "\x1b" not in text
    assert text.count("\\x1b[31mred\\n") == 3  # as a part, as new, and for its launch
    assert len(text.splitlines()) == 4


def test_on_a_cpu_calls_of_ops_stand_for_launches() -> None:
    cpu = {"device_name": "cpu", "device_type": "cpu"}
    before = table(row("aten::add", [5], launches=2), idle=[0], **cpu)
    after = table(row("aten::add", [5], launches=3), idle=[0], **cpu)
    assert "op calls 2 → 3 a step" in regression_text(diff(before, after))
