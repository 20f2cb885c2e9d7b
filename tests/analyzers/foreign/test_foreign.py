"""Files of other tools, each number worked out from the sample by hand."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from foreign_samples import (
    ALL,
    COALESCED,
    DCGM,
    DMON,
    MAMF,
    NCCL_LOG,
    NCCL_TESTS,
    QUERY,
    RAW,
    ROCM,
    SMI_XML,
)
from gpuperf_analyzers.foreign import ForeignError, Reading, kind_of_file, read_foreign
from gpuperf_analyzers.foreign.dcgm import is_blank
from gpuperf_analyzers.metrics import BUILTIN
from mutations import mutated

METRICS = {m.name: m for m in BUILTIN}


def read(tmp_path: Path, text: str, name: str = "file") -> Reading:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_foreign(path)


def present(reading: Reading) -> dict[str, tuple[float, str]]:
    found = reading.values(METRICS)
    return {k: (v.value, v.at) for k, v in found.items() if v.value is not None}


@pytest.mark.parametrize("kind", ALL)
def test_a_file_is_known_by_its_content_whatever_its_name(tmp_path: Path, kind: str) -> None:
    for name in ("output.txt", "x.json", "trace"):
        path = tmp_path / name
        path.write_text(ALL[kind])
        assert kind_of_file(path) == kind
        assert read_foreign(path).kind == kind
    packed = tmp_path / "packed.log"
    packed.write_bytes(gzip.compress(ALL[kind].encode()))
    assert read_foreign(packed).parts == read_foreign(path).parts
    wide = tmp_path / "wide.txt"
    wide.write_bytes(ALL[kind].encode("utf-16"))  # PowerShell's > writes it
    assert read_foreign(wide).parts == read_foreign(path).parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "{}",
        "[1, 2]",
        "<html></html>",
        '{"traceEvents": []}',
        "a,b\n1,2\n",
        "\x00\x01",
    ],
)
def test_what_is_unknown_is_left_to_others_and_told_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f"
    path.write_text(text)
    assert kind_of_file(path) == ""
    with pytest.raises(ForeignError, match=r"f: not a file that is known here") as error:
        read_foreign(path)
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------ nccl-tests
def test_busbw_is_of_the_largest_message_and_the_worse_place(tmp_path: Path) -> None:
    """10.49 out of place, 9.53 in place; the tool's own average of 5.005 holds the 8 bytes too."""
    reading = read(tmp_path, NCCL_TESTS)
    assert present(reading) == {"busbw": (9.53, "")}
    assert reading.device_name == "NVIDIA A100-SXM4-40GB"
    (sheet,) = reading.sheets
    assert len(sheet.rows) == 4  # two sizes, two places
    assert "average busbw 5.005 GB/s" in sheet.title
    assert not reading.findings


def test_tags_of_mpirun_and_several_runs_in_one_file(tmp_path: Path) -> None:
    second = NCCL_TESTS.replace("9.53    9.53", "7.00    7.00")
    text = "".join(
        f"[1,0]<stdout>:{line}\n"
        for line in ["./all_reduce_perf -b 8", *NCCL_TESTS.splitlines(), "./all_gather_perf -b 8",
                     *second.splitlines()]
    )  # fmt: skip
    reading = read(tmp_path, text)
    assert list(reading.parts) == ["all_reduce", "all_gather"]
    assert reading.parts["all_reduce"]["busbw"].value == 9.53
    assert present(reading) == {"busbw": (7.0, "all_gather")}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("9.53    9.53      0", "9.53    9.53     12"), "wrong-results"),
        (("# Out of bounds values : 0 OK", "# Out of bounds values : 4 FAILED"), "wrong-results"),
        (("# Avg bus bandwidth    : 5.005\n", ""), "truncated"),
        (("# Out of bounds", "node0: Test NCCL failure common.cu:958 'unhandled'\n# Out of bounds"),
         "failed-run"),
    ],
)  # fmt: skip
def test_what_makes_a_run_worthless_is_invalid(
    tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    assert change[0] in NCCL_TESTS
    reading = read(tmp_path, NCCL_TESTS.replace(*change))
    assert [f.code for f in reading.findings] == [code]
    assert "busbw" in reading.invalid


def test_a_collective_without_an_in_place_half(tmp_path: Path) -> None:
    text = NCCL_TESTS.replace("110.0    9.53    9.53      0", "110.0    9.53    9.53    N/A")
    assert present(read(tmp_path, text)) == {"busbw": (9.53, "")}
    text = NCCL_TESTS.replace("110.0    9.53    9.53      0", "N/A     N/A     N/A    N/A")
    assert present(read(tmp_path, text)) == {"busbw": (10.49, "")}


# ------------------------------------------------------------------ nvidia-smi
def test_dmon_by_device_with_the_worst_named(tmp_path: Path) -> None:
    """GPU 0: mean of 100 and 200 W, median of 1500 and 1300 MHz; GPU 1 is idle at 300 MHz."""
    reading = read(tmp_path, DMON)
    zero = {k: v.value for k, v in reading.parts["GPU 0"].items() if v.value is not None}
    assert zero == {
        "gpu_util": pytest.approx(0.9), "power": 150.0, "sm_clock": 1400.0, "temperature": 60.0,
        "memory_used": 2048 * 2**20, "pcie_rx": pytest.approx(0.3), "pcie_tx": pytest.approx(0.2),
    }  # fmt: skip
    found = present(reading)
    assert found["power"] == (150.0, "GPU 0")
    assert found["gpu_util"] == (0.0, "GPU 1")
    assert reading.parts["GPU 0"]["sm_active"].absent_reason


def test_dmon_with_times_and_gpm_columns(tmp_path: Path) -> None:
    text = (
        "#Date       Time        gpu    pwr     sm   pclk  smact  smocc tensor   dram\n"
        "#YYYYMMDD   HH:MM:SS    Idx      W      %    MHz      %      %      %      %\n"
        " 20240501   12:00:00      0    700    100   1755     80     40     60     30\n"
        " 20240501   12:00:01      0    700    100   1755     90     50     70      -\n"
    )
    found = present(read(tmp_path, text))
    assert found["sm_active"] == (pytest.approx(0.85), "")
    assert found["tensor_active"] == (pytest.approx(0.65), "")
    assert found["dram_active"] == (pytest.approx(0.3), "")


def test_a_query_log_with_units_blanks_and_reasons(tmp_path: Path) -> None:
    """[N/A] is no reading. SW power cap (0x4) and SW thermal (0x20) held in two rows of three.

    Clock 1500, 1356, 1356 of 1695 MHz: the median drop is 1 - 1356/1695 = 0.2.
    """
    reading = read(tmp_path, QUERY)
    assert reading.device_name == "NVIDIA A10"
    found = {k: v for k, (v, _) in present(reading).items()}
    assert found == {
        "gpu_util": pytest.approx(0.75), "power": 130.0, "sm_clock": 1356.0, "temperature": 60.0,
        "throttled": pytest.approx(2 / 3), "clock_drop": pytest.approx(0.2),
        "memory_used": 200 * 2**20,
    }  # fmt: skip
    cut = read(tmp_path, QUERY + "2024/05/01 12:00:03.000, 0, NVID")
    assert [f.code for f in cut.findings] == ["lines-lost"]
    assert present(cut) == present(reading)


def test_one_moment_of_a_partitioned_capped_faulty_device(tmp_path: Path) -> None:
    """705 of 1410 MHz is a drop of a half; the limit of 250 W is below the default of 400 W."""
    reading = read(tmp_path, SMI_XML)
    found = {k: v for k, (v, _) in present(reading).items()}
    assert found == {
        "sm_clock": 705.0, "power": 250.5, "temperature": 41.0, "throttled": 1.0,
        "clock_drop": 0.5, "memory_used": 2**30,
    }  # fmt: skip
    assert "MIG" in (reading.parts["GPU 0"]["gpu_util"].absent_reason or "")
    assert [f.code for f in reading.findings] == ["ecc-errors", "power-limit", "throttled"]
    assert reading.sheets[1].rows == (("GPU 0", "7", "0", 14.0, 12.0, 4864.0),)


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
    with pytest.raises(ForeignError, match="entities"):
        read(tmp_path, SMI_XML.replace("<nvidia_smi_log>", f"{bomb}<nvidia_smi_log>"))


@pytest.mark.parametrize(
    ("name", "device", "clock", "util", "memory_mib"),
    [  # read off the files
        ("rtx-3080-v13.xml", "NVIDIA GeForce RTX 3080", None, None, None),
        ("a10g.xml", "NVIDIA A10G", 210.0, 0.0, 22.0),
        ("rtx-4000-sff-ada-v13.xml", "NVIDIA RTX 4000 SFF Ada Generation", 210.0, 0.0, 3534.0),
        ("tesla_p4.xml", "GRID P4-1Q", 0.0, 0.0, 807.0),
    ],
)
def test_real_queries_of_old_and_new_layouts(
    shared_traces: Path, name: str, device: str, clock: float | None, util: float | None,
    memory_mib: float | None,
) -> None:  # fmt: skip
    reading = read_foreign(shared_traces / "nvidia-smi-telegraf" / name)
    assert reading.device_name == device
    values = reading.values(METRICS)
    if clock is not None and util is not None and memory_mib is not None:
        assert values["sm_clock"].value == clock
        assert values["gpu_util"].value == util
        assert values["memory_used"].value == memory_mib * 2**20


def test_every_real_query_reads(shared_traces: Path) -> None:
    paths = sorted((shared_traces / "nvidia-smi-telegraf").glob("*.xml"))
    assert len(paths) == 10
    assert all(read_foreign(p).parts for p in paths)


# ------------------------------------------------------------------ DCGM, ROCm
def test_a_scrape_by_device_with_blanks_slices_and_counters(tmp_path: Path) -> None:
    reading = read(tmp_path, DCGM)
    assert set(reading.parts) == {"n1 GPU 0", "n1 GPU 1", "n1 GPU 1 MIG 1g.10gb/7"}
    found = present(reading)
    assert found["sm_clock"] == (1755.0, "n1 GPU 1")
    assert found["sm_active"] == (0.25, "n1 GPU 1 MIG 1g.10gb/7")
    assert "temperature" not in found  # 2147483632 is a blank
    assert "counter" in (reading.parts["n1 GPU 0"]["pcie_tx"].absent_reason or "")
    assert [f.message for f in reading.findings] == ["n1 GPU 1: the driver's last error is XID 79"]
    assert reading.device_name == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("value", "blank"),
    [
        (9223372036854775792.0, True), (9223372036854777856.0, True), (2147483632.0, True),
        (2147483644.0, True), (140737488355330.0, True), (float("nan"), True),
        (0.0, False), (2147483648.0, False), (3.2e12, False), (-1.0, False),
    ],
)  # fmt: skip
def test_blanks_of_all_three_types(value: float, blank: bool) -> None:
    assert is_blank(value) is blank


def test_a_scrape_of_nothing_but_blanks_says_so(tmp_path: Path) -> None:
    with pytest.raises(ForeignError, match="no value of any field"):
        read(tmp_path, 'DCGM_FI_DEV_SM_CLOCK{gpu="0"} 9223372036854775794\n')


def test_rocm_by_card(tmp_path: Path) -> None:
    reading = read(tmp_path, ROCM)
    assert (reading.device_name, reading.device_type) == ("AMD Instinct MI210", "hip")
    found = {k: v for k, (v, _) in present(reading).items()}
    assert found == {
        "gpu_util": 0.45, "power": 90.0, "temperature": 45.0, "sm_clock": 1700.0,
        "memory_used": 2**30,
    }  # fmt: skip


# ------------------------------------------------------------------ NCCL, mamf-finder, timelines
def test_a_log_of_nccl_names_network_channels_choices_and_warnings(tmp_path: Path) -> None:
    reading = read(tmp_path, NCCL_LOG)
    facts = dict(reading.sheets[0].rows)  # type: ignore[arg-type]  # rows of two
    assert facts["version"] == "2.21.5+cuda12.4"
    assert (facts["hosts"], facts["rings"], facts["trees"]) == (2, 2, 1)
    assert facts["network"] == "Socket"
    assert facts["channels"] == "2"
    assert reading.sheets[1].rows == (("NET/Socket", 2),)
    assert reading.sheets[2].rows == (("all_reduce", 4194304, "ring", "simple", 1),)
    assert [f.code for f in reading.findings] == ["socket-network", "nccl-warning"]
    assert "no InfiniBand" in reading.findings[0].message


def test_sockets_between_nothing_are_no_fallback(tmp_path: Path) -> None:
    alone = "\n".join(x for x in NCCL_LOG.splitlines() if "n1:" not in x and "via NET" not in x)
    codes = [f.code for f in read(tmp_path, alone).findings]
    assert "socket-network" not in codes
    assert "missing-ranks" in codes  # rank 1 of 2 has no end of its set-up here


def test_the_best_median_of_mamf_finder(tmp_path: Path) -> None:
    reading = read(tmp_path, MAMF)
    assert present(reading) == {"tflops": (793.8, "")}
    assert reading.device_name == "NVIDIA H100 80GB HBM3"
    old = "The best outcome was 255.3TFLOPS @ 4096x4096x4096 (tried 125 shapes)\n"
    assert present(read(tmp_path, old)) == {"tflops": (255.3, "")}
    with pytest.raises(ForeignError, match="ends before its outcome"):
        read(tmp_path, MAMF.split("Tried")[0])


def test_the_peak_of_a_coalesced_timeline(tmp_path: Path) -> None:
    """100 + 400 + 50 bytes at 20 µs, 0.010 ms after the begin."""
    reading = read(tmp_path, COALESCED)
    assert present(reading) == {"peak_memory": (550.0, "")}
    assert "0.010 ms" in reading.values(METRICS)["peak_memory"].source
    assert reading.sheets[0].rows[:3] == (
        ("activation", 400, 400 / 550), ("parameter", 100, 100 / 550), ("unknown", 50, 50 / 550),
    )  # fmt: skip


def test_the_peak_of_a_raw_timeline(tmp_path: Path) -> None:
    """100 before, 400 of activation that becomes gradient, then goes: 500 at the most."""
    reading = read(tmp_path, RAW)
    assert present(reading) == {"peak_memory": (500.0, "")}
    assert "0.000 ms" in reading.values(METRICS)["peak_memory"].source


def test_a_timeline_that_torch_writes(tmp_path: Path) -> None:
    """A tensor of 4 MiB in the profile is in the peak; torch itself writes both layouts."""
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True
    ) as prof:
        kept = torch.ones(1024, 1024)
        torch.relu(kept)
    for name in ("t.json", "t.raw.json.gz"):
        path = tmp_path / name
        with pytest.warns(FutureWarning):
            prof.export_memory_timeline(str(path), device="cpu")
        value = read_foreign(path).values(METRICS)["peak_memory"].value
        assert value is not None
        assert 8 * 2**20 <= value < 8 * 2**20 + 2**16


# ------------------------------------------------------------------ damage
def test_damaged_files_read_or_say_why_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "f"
    texts = [text.encode() for text in (*ALL.values(), RAW)]
    seen: Counter[str] = Counter()
    for seed in range(600):
        rng = random.Random(seed)
        path.write_bytes(mutated(rng.choice(texts), rng))
        try:
            reading = read_foreign(path)
            reading.to_json(METRICS)
            seen["read"] += 1
        except ForeignError as error:
            lines = str(error).splitlines()
            seen["refused" if len(lines) == 1 else "several lines"] += 1
    assert set(seen) == {"read", "refused"}
    assert seen["read"] > 100
    assert seen["refused"] > 50


def test_a_gzip_bomb_ends_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuperf_analyzers.foreign.text.LARGEST", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(DMON.encode() + b"#" * (4 << 20)))
    with pytest.raises(ForeignError, match="more than 1 MiB"):
        read_foreign(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(NCCL_TESTS.encode())[:-20])
    with pytest.raises(ForeignError, match=r"cut\.gz"):
        read_foreign(path)
