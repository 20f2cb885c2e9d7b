"""Counters of a GPU without GPM from a dcgm-exporter: a made-up one, over HTTP on loopback."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_gpuperf.plugin import RUN
from pytest_gpuperf.recording.telemetry.dcgm_scrape import (
    LARGEST,
    Place,
    ScrapeReader,
    scrape_reader,
)
from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler
from pytest_gpuperf.recording.telemetry.series import Series
from pytest_gpuperf.recording.telemetry.summary import telemetry_of
from pytest_gpuperf.session.declaration import parse_keywords
from pytest_gpuperf.session.measuring import recording_options

from .conftest import FakeNvml
from .test_recorded import gpu, judged, recorded  # noqa: F401 - a fixture

BLANK = 9223372036854775794
LABELS = (
    'gpu="{gpu}",UUID="{uuid}",pci_bus_id="0",device="nvidia0",modelName="A \\"GPU\\"",Hostname="h"'
)
Body = Callable[[float], str]
Serve = Callable[[Body], str]


def line(name: str, value: object, uuid: str = "GPU-1", more: str = "") -> str:
    return f"{name}{{{LABELS.format(gpu=uuid[-1], uuid=uuid)}{more}}} {value}\n"


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[ThreadingHTTPServer] = []

    def begin(body: Body) -> str:
        started = time.monotonic()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = body(time.monotonic() - started).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/metrics"

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def exporter(interval_s: float, sm_active: float = 0.912) -> Body:
    """An exporter that refreshes every `interval_s`: another GPU, slices, blanks, a counter."""

    def body(elapsed_s: float) -> str:
        refresh = int(elapsed_s / interval_s)
        return (
            "# TYPE DCGM_FI_PROF_SM_ACTIVE gauge\n"
            + line("DCGM_FI_PROF_SM_ACTIVE", 0.111, "GPU-0")
            + line("DCGM_FI_PROF_SM_ACTIVE", sm_active)
            + line("DCGM_FI_PROF_SM_ACTIVE", 0.25, more=',GPU_I_PROFILE="1g.5gb",GPU_I_ID="7"')
            + line("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", BLANK)
            + line("DCGM_FI_PROF_DRAM_ACTIVE", 0.5)
            + "# TYPE DCGM_FI_PROF_NVLINK_RX_BYTES counter\n"
            + line("DCGM_FI_PROF_NVLINK_RX_BYTES", 12345)
            + line("DCGM_FI_DEV_TOTAL_ENERGY", refresh)
            + line("DCGM_FI_DEV_TOTAL_ENERGY", refresh, more=',GPU_I_ID="7"')
        )

    return body


def test_the_device_is_found_by_its_uuid_and_blanks_are_blanks(
    nvml: FakeNvml, serve: Serve
) -> None:
    nvml.set("gpm 0")
    with TelemetrySampler(["GPU-1"], dcgm=True, dcgm_url=serve(exporter(0.1))) as sampler:
        time.sleep(2)
    found = telemetry_of(sampler)
    assert found.values["sm_active"]["value"] == pytest.approx(0.912)
    assert found.values["sm_active"]["n"] >= 1
    assert found.values["dram_bandwidth"]["value"] == pytest.approx(0.5 * 3352.32)
    assert "tensor_active" not in found.values
    assert "nvlink_rx" not in found.values, "a counter of bytes is no rate"
    assert "refreshed" in found.absent["tensor_active"]


def seen(reader: ScrapeReader, begin_ns: int) -> dict[str, Series]:
    """What the reader has seen since, once it has three values: a loaded machine takes its time."""
    end = time.monotonic() + 20
    while True:
        time.sleep(0.1)
        found = reader.window(begin_ns, time.time_ns())
        if len(found.get("sm_active", ())) >= 3:
            return found
        assert time.monotonic() < end, "nothing was seen"


def test_a_slice_is_found_by_its_instance(serve: Serve) -> None:
    with scrape_reader(serve(exporter(0.1)), Place("GPU-1", 7)) as reader:
        assert not isinstance(reader, str), reader
        begin = time.time_ns()
        found = seen(reader, begin)
    assert set(found["sm_active"].values) == {0.25}
    assert "dram_active" not in found, "the whole GPU's is not the slice's"


def test_values_of_before_the_window_do_not_count(serve: Serve) -> None:
    """Idle until 0.9 s, then at work: the change that shows it lags, and the first two go."""

    def body(elapsed_s: float) -> str:
        # The exporter shows each interval's mean one interval (0.2 s) late.
        shown = int(elapsed_s / 0.2)
        mean = 0.9 if (shown - 2) * 0.2 >= 0.9 else 0.0
        return line("DCGM_FI_PROF_SM_ACTIVE", mean) + line("DCGM_FI_DEV_TOTAL", shown)

    started = time.monotonic()
    with scrape_reader(serve(body), Place("GPU-1")) as reader:
        assert not isinstance(reader, str), reader
        time.sleep(max(0.0, 1.0 - (time.monotonic() - started)))
        begin = time.time_ns()
        found = seen(reader, begin)
    assert set(found["sm_active"].values) == {0.9}


def test_a_change_before_the_window_that_is_seen_in_it_is_before_it(serve: Serve) -> None:
    """Each scrape shows the mean between the two before it, and takes its time to come."""
    asked: list[float] = []
    busy_from = [math.inf]

    def body(_: float) -> str:
        asked.append(time.monotonic())
        begin, end = [0.0, 0.0, *asked][-3:-1]
        busy_s = max(0.0, end - max(begin, busy_from[0]))
        mean = busy_s / (end - begin) if end > begin else 0.0
        text = line("DCGM_FI_PROF_SM_ACTIVE", mean) + line("DCGM_FI_DEV_TOTAL", len(asked))
        time.sleep(0.3)
        return text

    with scrape_reader(serve(body), Place("GPU-1")) as reader:
        assert not isinstance(reader, str), reader
        while len(asked) < 3:
            time.sleep(0.005)
        busy_from[0] = time.monotonic()
        begin = time.time_ns()  # the third scrape is under way
        found = seen(reader, begin)
    assert set(found["sm_active"].values) == {1.0}


def test_an_exporter_that_refreshes_too_slowly_is_told(nvml: FakeNvml, serve: Serve) -> None:
    nvml.set("gpm 0")
    with TelemetrySampler(["GPU-1"], dcgm=True, dcgm_url=serve(exporter(30.0))) as sampler:
        time.sleep(0.5)
    reason = sampler.watched.absent["sm_active"]
    assert "refreshed 0 times" in reason
    assert "--collect-interval" in reason


def _unused() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/metrics"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda _: "", "shows nothing of GPU-1"),
        (lambda _: "<html>" * 1000, "shows nothing of GPU-1"),
        (lambda _: line("DCGM_FI_PROF_SM_ACTIVE", BLANK), "shows nothing of GPU-1"),
        (lambda _: line("DCGM_FI_DEV_SM_CLOCK", 1500), "no profiling counters of GPU-1"),
        (lambda _: "x" * (LARGEST + 1), "16 MiB"),
        (lambda _: line("DCGM_FI_PROF_SM_ACTIVE", "nan"), "shows nothing"),
    ],
)
def test_what_an_exporter_may_answer(serve: Serve, body: Body, reason: str) -> None:
    with scrape_reader(serve(body), Place("GPU-1")) as reader:
        assert isinstance(reader, str)
        assert reason in reader


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://127.0.0.1:1/x", "http://[::1"])
def test_what_is_no_exporter_is_a_reason(url: str) -> None:
    with scrape_reader(url, Place("GPU-1")) as reader:
        assert isinstance(reader, str)
        assert "no dcgm-exporter answers" in reader


@pytest.mark.filterwarnings("ignore:.*CUDA.*:UserWarning")
def test_a_limit_gates_on_it(
    gpu: torch.device,  # noqa: F811
    nvml: FakeNvml,
    serve: Serve,
    tmp_path: Path,
) -> None:
    nvml.set("gpm 0")
    block = recorded(gpu, tmp_path / "t.json", counters_s=2, dcgm_url=serve(exporter(0.1, 0.6)))
    assert judged(block, min_sm_active="80%")["sm_active"].verdict.value == "FAIL"
    assert judged(block, min_sm_active="50%")["sm_active"].verdict.value == "PASS"


def test_the_address_is_an_option_an_ini_value_and_a_keyword(pytester: pytest.Pytester) -> None:
    url = "http://h:9400/metrics"
    for given in ((f"--gpuperf-dcgm-url={url}",), ("-o", f"gpuperf_dcgm_url={url}")):
        defaults = pytester.parseconfigure(*given).stash[RUN].defaults
        assert recording_options(defaults).dcgm_url == url
    own = parse_keywords({"dcgm_url": "https://other/metrics"}, {}, defaults)
    assert recording_options(own).dcgm_url == "https://other/metrics"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "localhost:9400", "http://", "http://a\nb"])
def test_what_is_no_address_is_refused_at_once(pytester: pytest.Pytester, url: str) -> None:
    with pytest.raises(pytest.UsageError, match="is no address: write it as 'http://localhost"):
        pytester.parseconfigure("-o", "addopts=", "--gpuperf-dcgm-url", url)
