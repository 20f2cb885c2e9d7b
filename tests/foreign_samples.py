"""Outputs of other tools as they write them, small, with numbers made for the tests."""

from __future__ import annotations

NCCL_TESTS = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 1048576 step: 131072(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  21031 on      node0 device  0 [0x10] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid  21031 on      node0 device  1 [0x16] NVIDIA A100-SXM4-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    33.49    0.00    0.00      0    33.59    0.00    0.00      0
     1048576        262144     float     sum      -1    100.0   10.49   10.49      0    110.0    9.53    9.53      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.005
#
"""
DMON = """\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk     fb   bar1  rxpci  txpci
# Idx      W      C      C      %      %      %      %    MHz    MHz     MB     MB   MB/s   MB/s
    0    100     50      -     80     20      0      0   5000   1500   1024      5    200    100
    1     60     40      -      0      0      0      0   5000    300     10      5      0      0
    0    200     60      -    100     20      0      0   5000   1300   2048      5    400    300
    1     61     41      -      0      0      0      0   5000    300     10      5      0      0
"""
QUERY = """\
timestamp, index, name, utilization.gpu [%], power.draw [W], clocks.current.sm [MHz], clocks.max.sm [MHz], temperature.gpu, memory.used [MiB], clocks_event_reasons.active
2024/05/01 12:00:00.000, 0, NVIDIA A10, 50 %, 100.00 W, 1500 MHz, 1695 MHz, 50, 100 MiB, 0x0000000000000000
2024/05/01 12:00:01.000, 0, NVIDIA A10, 100 %, 140.00 W, 1356 MHz, 1695 MHz, 55, 200 MiB, 0x0000000000000004
2024/05/01 12:00:02.000, 0, NVIDIA A10, [N/A], 150.00 W, 1356 MHz, 1695 MHz, 60, 150 MiB, 0x0000000000000020
"""
DCGM = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 1980
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 1755
# TYPE DCGM_FI_DEV_MEMORY_TEMP gauge
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 9223372036854775794
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 2147483632
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 0.75
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-2",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 0.5
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-2",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 0.25
# TYPE DCGM_FI_PROF_PCIE_TX_BYTES counter
DCGM_FI_PROF_PCIE_TX_BYTES{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 123456789
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-2",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 79
"""
ROCM = """\
{"card0": {"Card series": "AMD Instinct MI210", "GPU use (%)": "45", "Average Graphics Package Power (W)": "90.0",
 "Temperature (Sensor edge) (C)": "40.0", "Temperature (Sensor junction) (C)": "45.0", "sclk clock speed:": "(1700Mhz)",
 "VRAM Total Used Memory (B)": "1073741824"}, "system": {"Driver version": "6.2.4"}}
"""
NCCL_LOG = """\
n0:101:101 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
NCCL version 2.21.5+cuda12.4
n0:101:120 [0] NCCL INFO NET/IB : No device found.
n0:101:120 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
n0:101:120 [0] NCCL INFO Using network Socket
n1:202:220 [0] NCCL INFO Using network Socket
n0:101:120 [0] NCCL INFO Channel 00/02 :    0   1
n0:101:120 [0] NCCL INFO Channel 01/02 :    0   1
n0:101:120 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1
n0:101:120 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
n0:101:120 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
n0:101:120 [0] NCCL INFO 2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer
n0:101:120 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init COMPLETE
n1:202:220 [0] NCCL INFO comm 0x56 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init COMPLETE
n0:101:120 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n1<4242>
n0:101:120 [0] NCCL INFO AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}
"""
MAMF = """\
** Benchmark started on 2024-09-20 10:00:00

Device    : _CudaDeviceProperties(name='NVIDIA H100 80GB HBM3', major=9, minor=0, total_memory=81079MB, multi_processor_count=132)

  1 | 700.0(mean)  701.0(median)  710.0(max) @ 4096x4096x4096 | best so far

Tried  3375 shapes => the best outcomes were:
mean:   792.1 TFLOPS @ 3072x4096x5120 (MxNxK)
median: 793.8 TFLOPS @ 3072x4096x5120 (MxNxK)
max:    807.8 TFLOPS @ 11264x9216x2048 (MxNxK)

geomean: 700.7 TFLOPS for 3375 shapes in range: m=[0, 20480, 256] | n=[0, 20480, 256] | k=[0, 20480, 256]
"""
COALESCED = """\
[[10, 20, 30], [[0, 100, 0, 0, 0, 0, 0, 0, 0], [0, 100, 0, 0, 0, 400, 0, 0, 50], [0, 100, 200, 0, 0, 0, 0, 0, 0]]]
"""
RAW = "[[-1, 1, 100, 0], [1000, 2, 400, 4], [2000, 3, -400, 4], [2000, 3, 400, 5], [3000, 4, -400, 5]]"
SMI_XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
 <timestamp>Fri Apr 10 10:23:01 2026</timestamp><driver_version>550.54</driver_version><cuda_version>12.4</cuda_version>
 <attached_gpus>1</attached_gpus>
 <gpu id="00000000:0C:00.0">
  <product_name>NVIDIA A100-SXM4-40GB</product_name><persistence_mode>Enabled</persistence_mode>
  <mig_mode><current_mig>Enabled</current_mig></mig_mode>
  <mig_devices><mig_device><index>0</index><gpu_instance_id>7</gpu_instance_id><compute_instance_id>0</compute_instance_id>
   <device_attributes><shared><multiprocessor_count>14</multiprocessor_count></shared></device_attributes>
   <fb_memory_usage><total>4864 MiB</total><used>12 MiB</used></fb_memory_usage></mig_device></mig_devices>
  <uuid>GPU-1</uuid>
  <clocks_event_reasons><clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
   <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap></clocks_event_reasons>
  <fb_memory_usage><total>40960 MiB</total><used>1024 MiB</used></fb_memory_usage>
  <utilization><gpu_util>N/A</gpu_util></utilization>
  <ecc_errors><volatile><sram_correctable>3</sram_correctable><dram_uncorrectable>2</dram_uncorrectable></volatile></ecc_errors>
  <temperature><gpu_temp>41 C</gpu_temp></temperature>
  <gpu_power_readings><power_draw>250.50 W</power_draw><current_power_limit>250.00 W</current_power_limit>
   <default_power_limit>400.00 W</default_power_limit></gpu_power_readings>
  <clocks><sm_clock>705 MHz</sm_clock></clocks><max_clocks><sm_clock>1410 MHz</sm_clock></max_clocks>
  <processes></processes>
 </gpu>
</nvidia_smi_log>
"""
ALL = {
    "nccl-tests": NCCL_TESTS,
    "nvidia-smi dmon": DMON,
    "nvidia-smi --query-gpu": QUERY,
    "DCGM scrape": DCGM,
    "rocm-smi --json": ROCM,
    "NCCL log": NCCL_LOG,
    "mamf-finder": MAMF,
    "torch memory timeline": COALESCED,
    "nvidia-smi -q -x": SMI_XML,
}
