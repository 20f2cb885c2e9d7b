"""Devices of a trace, and which kernels are communication."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.classify import (
    BUILTIN_CLASSIFIERS,
    comm_mask,
    device_findings,
    device_name,
    devices,
)
from kineto import KinetoTrace


def communication(name: str) -> bool:
    return any(test(name) for test in BUILTIN_CLASSIFIERS)


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
        "void rccl_main_kernel_1(ncclDevComm*)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(…)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(…)",
        "void (anonymous namespace)::one_shot_all_reduce_kernel<float>(…)",
        "two_shot_all_reduce_kernel_inplace",
        "nvshmemi_transfer_rma_put",
        "void deep_ep::internode::dispatch<true>(…)",
        "mscclpp::allreduce7",
    ],
)
def test_kernels_of_libraries_and_of_custom_all_reduces_are_communication(name: str) -> None:
    assert communication(name)


@pytest.mark.parametrize(
    "name",
    [
        "hipblasltGemm", "Cijk_Ailk_Bljk_BBS_BH", "void DmaCopyKernel", "SyncThreadsKernel",
        "void oneflow::BlockAllReduce<float>(float*)", "Memcpy PtoP (Device -> Device)",
        "all_reduce_scalar_epilogue_gemm", "reduce_kernel<512, 1>",
    ],
)  # fmt: skip
def test_names_that_only_resemble_communication_are_not(name: str) -> None:
    assert not communication(name)


def test_a_classifier_of_a_plugin_decides_too(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("my_ring_exchange", at=0, runs=(10, 20))
    trace = read_trace(t.write(tmp_path / "trace.json"))
    builtin = Config({}, comm_classifiers=BUILTIN_CLASSIFIERS)
    mine = Config({}, comm_classifiers=(*BUILTIN_CLASSIFIERS, lambda n: n.startswith("my_ring")))
    assert comm_mask(trace, builtin).sum() == 0
    assert comm_mask(trace, mine).sum() == 1


def accelerated(sign: str) -> KinetoTrace:
    t = KinetoTrace(device_name=None)
    t.op("aten::mm", at=0, dur=5)
    if sign == "runtime":
        t.runtime("cudaGetDeviceCount", at=1, dur=1)
    elif sign == "driver":
        t.event("cuInit", "cuda_driver", 1, 1)
    elif sign == "hip":
        t.event("hipGetDeviceCount", "hip_runtime", 1, 1)
    elif sign == "properties":
        t.metadata["deviceProperties"] = [{"id": 0, "name": "Tesla V100-SXM2-16GB"}]
    elif sign == "nccl":
        t.event("nccl:all_reduce", "user_annotation", 1, 1)
    elif sign == "sync":
        t.event("Stream Sync", "cuda_sync", 1, 1)
    return t


@pytest.mark.parametrize("sign", ["runtime", "driver", "hip", "properties", "nccl", "sync"])
def test_any_sign_of_an_accelerator_without_activity_is_a_finding_not_a_cpu_run(
    sign: str, tmp_path: Path
) -> None:
    trace = read_trace(accelerated(sign).write(tmp_path / "trace.json"))
    assert devices(trace) == ()
    (finding,) = device_findings(trace)
    assert finding.code == "no-gpu-events"
    assert finding.example


def test_no_sign_of_an_accelerator_is_a_cpu_run(tmp_path: Path) -> None:
    trace = read_trace(accelerated("").write(tmp_path / "trace.json"))
    assert devices(trace) == ("cpu",)
    assert device_findings(trace) == ()
    assert device_name(trace, "cpu") == "cpu"


def test_mtia_is_one_clear_line(tmp_path: Path) -> None:
    t = accelerated("")
    t.event("run", "mtia_runtime", 1, 1)
    trace = read_trace(t.write(tmp_path / "trace.json"))
    assert [f.code for f in device_findings(trace)] == ["unsupported-device"]
    assert devices(trace) == ()


def test_an_empty_trace_says_so(tmp_path: Path) -> None:
    trace = read_trace(KinetoTrace(device_name=None).write(tmp_path / "trace.json"))
    assert [f.code for f in device_findings(trace)] == ["no-events"]


def test_copies_of_the_old_category_are_told_and_make_their_metrics_invalid(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    t.launch("Memcpy HtoD (Pageable -> Device)", 5, (25, 30), cat="Memcpy", call="cudaMemcpyAsync")
    trace = read_trace(t.write(tmp_path / "trace.json"))
    (finding,) = device_findings(trace)
    assert (finding.code, finding.count) == ("old-memory-category", 1)
    assert "memory_time" in finding.invalidates


def test_a_device_without_properties_has_no_name(tmp_path: Path) -> None:
    t = KinetoTrace(device=0)
    t.launch("a", at=0, runs=(10, 20))
    t.launch("Memcpy HtoD (Host -> Device)", 5, (25, 30), cat="gpu_memcpy", device=4)
    trace = read_trace(t.write(tmp_path / "trace.json"))
    assert device_name(trace, 0) == "NVIDIA H100 80GB HBM3"
    assert device_name(trace, 4) == ""
