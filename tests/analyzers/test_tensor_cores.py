"""Tensor cores by kernel names, against the names that libraries write."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import load_config, read_trace, tensor_cores
from gpuperf_analyzers.tensor_cores import TensorCoresResult, on_tensor_cores
from gpuperf_analyzers.trace.classify import devices
from kineto import MAIN, KinetoTrace


def analyzed(path: Path) -> TensorCoresResult:
    trace = read_trace(path)
    return tensor_cores.analyze(trace, load_config(), devices(trace)[0])


@pytest.mark.parametrize(
    "name",
    [
        "volta_h884gemm_256x128_ldg8_nn",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x64x32_stage4_tensor16x8x16_kernel",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel",
        "nvjet_sm103_tst_256x16_64x6_4x1_v_bz_TNT",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align1>(Params)",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128> >(params)",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128",
        "Cijk_Ailk_Bljk_HHS_BH_MT64x128x32_MI16x16x16x1_SN_1LDSB0_APM1",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8",
        "kernel_grouped_conv_fwd_xdl_cshuffle_v3",
        "paged_attention_ll4mi_QKV_mfma16_kernel",
    ],
)
def test_names_that_say_tensor_cores(name: str) -> None:
    assert on_tensor_cores(name) is True


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_128x64_nn",
        "ampere_sgemm_32x128_tn",
        "void gemv2T_kernel_val<int, int, float, float>",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)",
        "volta_scudnn_128x64_relu_interior_nn_v1",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false>(int)",
        "void magma_sgemmEx_kernel<float, float, float, true, false, 6, 4, 6, 3, 4>(int)",
        "Cijk_Ailk_Bljk_SB_MT128x64x8_SE_K1",
    ],
)
def test_names_that_say_the_ordinary_units(name: str) -> None:
    assert on_tensor_cores(name) is False


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >",
        "triton_poi_fused_add_0",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
        "SubTensorOpWithScalar1d",
        "Cijk_B_PostGSU2",
        "void reduce_1Block_kernel<float, 128, 7, cublasGemvTensorStridedBatched<float> >",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>",
    ],
)
def test_names_that_tell_neither(name: str) -> None:
    assert on_tensor_cores(name) is None


def test_the_share_is_of_the_time_of_products_whose_names_tell(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("aten::mm", at=0, dur=10)
    t.launch("nvjet_tst_64x16_64x16_2x4_h_bz_TNT", at=1, runs=(20, 50))
    t.op("aten::addmm", at=20, dur=10)
    t.launch("ampere_sgemm_128x64_nn", at=21, runs=(50, 60))
    t.launch("elementwise", at=22, runs=(60, 100))
    result = analyzed(t.write(tmp_path / "t.json"))
    (share,) = result.metrics()
    assert share.value == 30 / 40
    assert [(k.tensor, k.total_us, k.ops) for k in result.kernels] == [
        (True, 30.0, ("aten::mm",)),
        (False, 10.0, ("aten::addmm",)),
    ]
    assert result.to_frame()["count"].tolist() == [1, 1]


def test_without_a_telling_name_and_on_a_cpu_the_share_is_absent(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("elementwise", at=22, runs=(60, 100))
    (share,) = analyzed(t.write(tmp_path / "gpu.json")).metrics()
    assert share.absent_reason == "no kernel's name tells"
    c = KinetoTrace(device_name=None)
    c.event("aten::mm", "cpu_op", 0, 10, pid=MAIN)
    (share,) = analyzed(c.write(tmp_path / "cpu.json")).metrics()
    assert share.absent_reason == "a CPU has no tensor cores"


def test_a_v100_in_float32_uses_none_and_an_h100_in_bfloat16_nearly_always(
    shared_traces: Path,
) -> None:
    (v100,) = analyzed(shared_traces / "hta-df-index-resolver/df_index_resolver.json.gz").metrics()
    assert v100.value == 0  # no TF32 on a V100
    qwen = shared_traces / "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
    (h100,) = analyzed(qwen).metrics()
    assert h100.value is not None
    assert h100.value > 0.99
