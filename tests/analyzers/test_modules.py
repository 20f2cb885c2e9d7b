"""Time by nn.Module against hand-drawn calls and a real training run."""

from __future__ import annotations

from pathlib import Path

from gpuperf_analyzers import load_config, modules, read_trace
from gpuperf_analyzers.modules import NO_MODULES, ModulesResult, ModuleTime
from gpuperf_analyzers.trace.classify import devices
from kineto import KinetoTrace

AUTOGRAD = 200


def analyzed(path: Path) -> ModulesResult:
    trace = read_trace(path)
    return modules.analyze(trace, load_config(), devices(trace)[0])


def module(t: KinetoTrace, name: str, at: float, dur: float) -> None:
    t.event(f"nn.Module: {name}", "python_function", at, dur)


def training_step(t: KinetoTrace) -> None:
    module(t, "Net_0", at=0, dur=100)
    module(t, "Linear_0", at=10, dur=20)
    t.op("aten::linear", at=12, dur=16, **{"Sequence number": 7, "Fwd thread id": 0})
    t.op("aten::addmm", at=14, dur=12, **{"Sequence number": 7, "Fwd thread id": 0})
    t.launch("gemm", at=15, runs=(40, 50))
    module(t, "ReLU_0", at=40, dur=20)
    t.op("aten::relu", at=42, dur=10, **{"Sequence number": 8, "Fwd thread id": 0})
    t.launch("relu", at=45, runs=(60, 65))
    t.op("aten::add", at=70, dur=10, **{"Sequence number": 9, "Fwd thread id": 0})
    t.launch("add", at=72, runs=(80, 83))
    for at, node, number, runs in (
        (200, "ReluBackward0", 8, (220, 224)),
        (300, "AddmmBackward0", 7, (320, 350)),
    ):
        t.op(f"autograd::engine::evaluate_function: {node}", at=at, dur=50, tid=AUTOGRAD)
        t.op(
            node, at=at + 2, dur=30, tid=AUTOGRAD,
            **{"Sequence number": number, "Fwd thread id": 1},
        )  # fmt: skip
        t.op("aten::mm", at=at + 4, dur=20, tid=AUTOGRAD)
        t.launch("backward", at=at + 5, runs=runs, tid=AUTOGRAD)
        # The engine's own work after the node, such as summing gradients.
        t.launch("sum", at=at + 40, runs=(runs[1] + 5, runs[1] + 7), tid=AUTOGRAD)


def test_forward_and_backward_belong_to_the_module_that_made_the_node(tmp_path: Path) -> None:
    t = KinetoTrace()
    training_step(t)
    result = analyzed(t.write(tmp_path / "t.json"))
    assert result.modules == (
        ModuleTime("Net_0", "Net_0", 0, 1, 7, 18.0, 38.0, 3.0),
        ModuleTime("Linear_0", "Net_0/Linear_0", 1, 1, 3, 10.0, 32.0, 42.0),
        ModuleTime("ReLU_0", "Net_0/ReLU_0", 1, 1, 3, 5.0, 6.0, 11.0),
    )
    assert result.to_frame()["path"].tolist() == ["Net_0", "Net_0/Linear_0", "Net_0/ReLU_0"]


def test_calls_of_one_module_are_one_row_and_overlapping_kernels_count_once(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    for at in (0, 100):
        module(t, "Conv2d_0", at=at, dur=50)
        t.launch("a", at=at + 5, runs=(at + 20, at + 40))
        t.launch("b", at=at + 6, runs=(at + 30, at + 45), stream=9)
    t.launch("outside", at=60, runs=(70, 80))
    (row,) = analyzed(t.write(tmp_path / "t.json")).modules
    assert row == ModuleTime("Conv2d_0", "Conv2d_0", 0, 2, 4, 50.0, 0.0, 50.0)


def test_a_module_that_calls_itself_holds_its_kernels_once(tmp_path: Path) -> None:
    t = KinetoTrace()
    module(t, "Tree_0", at=0, dur=50)
    module(t, "Tree_0", at=10, dur=20)
    t.launch("a", at=15, runs=(20, 30))
    (row,) = analyzed(t.write(tmp_path / "t.json")).modules
    assert (row.calls, row.kernels, row.forward_us) == (2, 1, 10.0)


def test_without_module_calls_the_reason_says_how_to_record_them(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=15, runs=(20, 30))
    result = analyzed(t.write(tmp_path / "t.json"))
    assert (result.modules, result.absent_reason) == ((), NO_MODULES)
    assert list(result.metrics()) == []


def test_modules_of_a_cpu_run_hold_their_ops(shared_traces: Path) -> None:
    result = analyzed(shared_traces / "local-torch214-cpu/cpu_full_options_3steps.pt.trace.json.gz")
    assert [m.path for m in result.modules] == [
        "Sequential_0",
        "Sequential_0/Linear_0",
        "Sequential_0/ReLU_0",
        "Sequential_0/Linear_1",
    ]
    assert {m.calls for m in result.modules} == {3}
    assert all(m.forward_us > 0 and m.backward_us > 0 for m in result.modules)


def test_a_real_resnet_has_its_blocks_and_their_times_add_up(shared_traces: Path) -> None:
    file = "tracelens-mi300-ddp-resnet18-no-pool/train_resnet18.json.gz"
    result = analyzed(shared_traces / file)
    by_name = {m.name.rpartition("_")[0]: 0 for m in result.modules}
    for m in result.modules:
        by_name[m.name.rpartition("_")[0]] += 1
    # ResNet-18: 20 convolutions and as many norms, 8 blocks in 4 stages (3 with a downsample).
    assert by_name["Conv2d"] == by_name["BatchNorm2d"] == 20
    assert by_name["BasicBlock"] == 8
    assert by_name["Sequential"] == 4 + 3
    (root,) = [m for m in result.modules if m.depth == 0]
    # One stream whose kernels do not overlap: own times of all modules make up the whole.
    own = sum(m.own_us for m in result.modules)
    assert abs(own - root.forward_us - root.backward_us) < 1e-3 * own
