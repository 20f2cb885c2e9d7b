"""``gpuperf exporter``: results and live GPUs over HTTP for Prometheus."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.inputs import USAGE, complain

if TYPE_CHECKING:
    from pytest_gpuperf.exporter.live import LiveGpus

PORT = 9948
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def run(argv: Sequence[str]) -> int:
    """Serve until interrupted: 0, or 2 where there is nothing to serve or no port."""
    args = _parser().parse_args(argv)
    if find_spec("prometheus_client") is None:
        complain("the exporter needs prometheus-client: pip install 'pytest-gpuperf[prometheus]'")
        return USAGE
    for path in (*args.reports, *([args.watch] if args.watch else [])):
        if not Path(path).exists():
            complain(f"{path}: no such file or folder")
            return USAGE
    if args.watch and not Path(args.watch).is_dir():
        complain(f"{args.watch}: --watch takes a folder")
        return USAGE
    with ExitStack() as stack:
        gpus = None if args.no_live else _live(stack)
        if gpus is None and not (args.reports or args.watch):
            complain("nothing to export: no GPU that NVML shows; name a report or --watch DIR")
            return USAGE
        return _serve(args, gpus, stack)


def _live(stack: ExitStack) -> LiveGpus | None:
    """Every GPU here; None, after a line why, where there is none."""
    from pytest_gpuperf.exporter.live import LiveGpus
    from pytest_gpuperf.recording.telemetry.binding import binding

    try:
        gpus = stack.enter_context(LiveGpus())
    except binding().NVMLError as error:
        complain(f"no live samples: {error}")
        return None
    return gpus if len(gpus) else None


def _serve(args: argparse.Namespace, gpus: LiveGpus | None, stack: ExitStack) -> int:
    from prometheus_client import CollectorRegistry, start_http_server

    from pytest_gpuperf.exporter.files import ReportFiles

    registry = CollectorRegistry(auto_describe=False)
    if args.reports or args.watch:
        registry.register(ReportFiles(args.reports, args.watch))
    if gpus is not None:
        registry.register(gpus)
    try:
        server, thread = start_http_server(args.port, args.host, registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        complain(f"{args.host}:{args.port} cannot be listened on: {reason}")
        return USAGE
    stack.callback(thread.join, 5)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    if args.host not in _LOOPBACK:
        complain(f"{args.host} is reachable from elsewhere, and the exporter asks for no password")
    host = f"[{args.host}]" if ":" in args.host else args.host
    print(f"gpuperf exporter: http://{host}:{server.server_port}/metrics", flush=True)  # noqa: T201
    ended = Event()
    before = {s: signal.signal(s, lambda *_: ended.set()) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf exporter",
        allow_abbrev=False,
        description="Results of reports, and what NVML says of each GPU at the time of a scrape, "
        "at http://HOST:PORT/metrics for Prometheus. Runs until interrupted.",
    )
    parser.add_argument(
        "reports", nargs="*", metavar="REPORT.json|DIR", help="reports, or folders of one"
    )
    parser.add_argument(
        "--watch", metavar="DIR", help="every report in DIR and two levels below, as they change"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="where to listen (default %(default)s, this machine)"
    )
    parser.add_argument("--port", type=int, default=PORT, help="default %(default)s; 0 takes any")
    parser.add_argument("--no-live", action="store_true", help="leave the GPUs of this machine out")
    return parser
