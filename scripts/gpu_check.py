"""The GPU paths, part by part: what ran, what it gave, and what could not be run here and why.

Without a GPU the parts that a CPU reaches run on it, and each of the others says what it lacks.
Each part is a process of its own with a time limit, so that one that hangs or crashes costs itself.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_workloads import one_thread, workload_set

from pytest_gpuperf.recording import Options, RecordingError, environment, record, resolve_device

BUDGET_S = 280.0
DUMP_S = 10.0
"""How long before its limit a part shows where it hangs."""
EXAMPLE = Path(__file__).resolve().parents[1] / "example_project"


class NotHereError(Exception):
    """Why a part cannot be run on this machine."""


@dataclass
class Check:
    """Where the parts run and write."""

    device: torch.device
    out: Path
    quick: bool
    missing: dict[str, str] = field(default_factory=dict)
    """Pieces of the part under way that could not be run, and why."""

    def record(self, name: str, step: Callable[[], object], **options: Any) -> dict[str, Any]:
        """The live block of one recording; its trace stays under the name."""
        seconds = {"warmup_s": 0.05, "max_time_s": 0.1} if self.quick else {"max_time_s": 0.5}
        settings = Options(**{"warmup_s": 0.3, "measure_peak": False, **seconds, **options})
        path = self.out / "traces" / f"{name}.pt.trace.json.gz"
        block = record(step, device=self.device, trace_path=path, options=settings, name=name).block
        return block.to_json()


def median(block: dict[str, Any]) -> float:
    """Median of a block's samples, µs."""
    from gpuperf_analyzers.stats import median as middle

    return middle(block["samples_us"])


def inputs(check: Check, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two square matrices of random values."""
    dtype = torch.bfloat16 if check.device.type == "cuda" else torch.float32
    made = [torch.randn(side, side, device=check.device, dtype=dtype) for _ in "ab"]
    return made[0], made[1]


def timers(check: Check) -> dict[str, Any]:
    """A long and a short workload by every timer that this device has."""
    a, b = inputs(check, 4096 if check.device.type == "cuda" else 128)
    found: dict[str, Any] = {}
    for name in ("wall", "event", "kernel", "graph"):
        for label, step in (("long", partial(torch.mm, a, b)), ("short", partial(torch.neg, a[0]))):
            try:
                block = check.record(f"{name}-{label}", step, timer=name)
            except RecordingError as error:
                check.missing[f"timer {name}"] = str(error)
                break
            found[f"{name}_{label}_us"] = median(block)
            found[f"{name}_{label}_stop"] = block["stop"]
    return found


def l2_flush(check: Check) -> dict[str, Any]:
    """The same small read with the L2 cache hot and cold, by events and in a graph."""
    x = torch.randn(1 << 20, device=check.device)
    return {
        f"{timer}_{l2}_us": median(check.record(f"l2-{timer}-{l2}", partial(torch.neg, x),
                                                timer=timer, l2=l2))
        for timer in ("event", "graph") for l2 in ("hot", "cold")
    }  # fmt: skip


def counters(check: Check) -> dict[str, Any]:
    """NVML's and GPM's counters and energy over a loop of a large matmul."""
    a, b = inputs(check, 8192)
    block = check.record("counters", partial(torch.mm, a, b), counters_s=1.5)
    check.missing |= {f"counter {name}": why for name, why in block["telemetry_absent"].items()}
    return {"telemetry": block["telemetry"], "notes": block["notes"]}


def memory(check: Check) -> dict[str, Any]:
    """Memory by category of a training step, the allocator's peaks, a snapshot of its history."""
    from gpuperf_analyzers.snapshot import device_memory, past_of, read_snapshot

    torch.cuda.memory._record_memory_history()  # noqa: SLF001 - torch has no public name for it
    net = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)
    ).to(check.device)
    adam = torch.optim.Adam(net.parameters())
    x = torch.randn(512, 1024, device=check.device)

    def step() -> None:
        adam.zero_grad()
        net(x).square().mean().backward()
        adam.step()

    block = check.record("memory", step, breakdown=True, trend_steps=12)
    path = check.out / "memory_snapshot.pickle"
    torch.cuda.memory._dump_snapshot(str(path))  # noqa: SLF001 - the same
    torch.cuda.memory._record_memory_history(enabled=None)  # noqa: SLF001 - the same
    told = read_snapshot(path)
    seen, past = device_memory(told, 0), past_of(told, 0)
    parameters = sum(4 * p.numel() for p in net.parameters())
    return {
        "peak_bytes": block["peak_bytes"], "peak_reserved_bytes": block["peak_reserved_bytes"],
        "counts": block["torch_counts"], "by_category": block["memory"]["largest"],
        "at_peak": block["memory"]["at_peak"], "levels": block["memory"]["levels"],
        "parameter_bytes": parameters, "snapshot_bytes": path.stat().st_size,
        "snapshot_notes": told.notes, "snapshot_reserved": seen.reserved,
        "allocator_reserved": torch.cuda.memory_reserved(check.device),
        "snapshot_allocated": seen.allocated,
        "history_peak": None if past is None else past.peak_bytes,
    }  # fmt: skip


def compiled(check: Check) -> dict[str, Any]:
    """torch.compile's counts on a function with one graph break."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()  # noqa: SLF001 - this is how a graph is broken on purpose
        return y + 1

    step = partial(torch.compile(broken, backend="eager"), torch.randn(4096, device=check.device))
    return dict(check.record("compiled", step)["torch_counts"])


def one_rank(check: Check) -> dict[str, Any]:
    """All-reduce in a group of one: NCCL on a GPU, gloo elsewhere."""
    import torch.distributed as dist

    backend = "nccl" if check.device.type == "cuda" else "gloo"
    if backend != "nccl":
        check.missing["NCCL"] = "needs a CUDA GPU: one rank of gloo ran instead"
    store = (check.out / "rendezvous").absolute()
    store.unlink(missing_ok=True)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(backend, init_method=f"file://{store}", rank=0, world_size=1)
    try:
        x = torch.randn(1 << 20, device=check.device)
        block = check.record(f"allreduce-{backend}", lambda: dist.all_reduce(x))
    finally:
        dist.destroy_process_group()
        store.unlink(missing_ok=True)
    return {"backend": backend, "step_us": median(block)}


def ranks(check: Check) -> dict[str, Any]:
    """Collectives, DDP and FSDP2 on as many ranks as there are GPUs; two of gloo elsewhere."""
    from pytest_gpuperf.distributed import measure_collectives, measure_step
    from pytest_gpuperf.workloads.distributed import sharded_linears, three_linears

    on_gpu = check.device.type == "cuda"
    count = torch.cuda.device_count() if on_gpu else 2
    if not on_gpu:
        check.missing["NCCL collectives"] = "need a CUDA GPU: two ranks of gloo ran instead"
    elif count == 1:
        check.missing["bus bandwidth"] = "needs two GPUs: of one rank nothing crosses a link"
    large = on_gpu and not check.quick
    table = measure_collectives(
        sizes=(2**10, 2**20, 2**28) if large else (2**12,), world_size=count,
        max_time_s=0.5 if large else 0.05, timeout_s=60.0,
    )  # fmt: skip
    rows = table.to_json()["rows"]
    found: dict[str, Any] = {"ranks": count, "backend": table.backend, "collectives": rows}
    if table.wrong:
        raise RuntimeError(f"{table.wrong} elements of the collectives' results are wrong")
    sizes = {} if large else {"width": 64, "batch": 8}
    quick = {} if large else {"warmup_s": 0.05, "max_time_s": 0.1}
    for name, step in (("ddp", three_linears), ("fsdp", sharded_linears)):
        measured = measure_step(
            partial(step, **sizes), count, options=Options(steps=10, measure_peak=False, **quick),
            folder=check.out / "traces", stem=name, timeout_s=90.0,
        )  # fmt: skip
        values = measured.analysis.values
        shown = ("step_time", "overlap", "exposed_comm", "flops", "collective_bytes")
        found[name] = {metric: values[metric].value for metric in shown}
    return found


def mamf(check: Check) -> dict[str, Any]:
    """The quick search for the maximum matmul FLOPS in bf16 and fp8; four shapes elsewhere."""
    from gpuperf_analyzers.registry import load_config
    from pytest_gpuperf.mamf.ranges import make_grid, preset
    from pytest_gpuperf.mamf.result import to_json
    from pytest_gpuperf.mamf.run import Options as Searched
    from pytest_gpuperf.mamf.run import find_maximum
    from pytest_gpuperf.mamf.search import Effort
    from pytest_gpuperf.mamf.writing import write_json

    on_gpu = check.device.type == "cuda"
    if not on_gpu:
        check.missing["mamf bf16, fp8"] = "needs a CUDA GPU: four small shapes ran in fp32 instead"
    small = make_grid((64, 128), (64,), (64, 128))
    grid = preset("quick", on_cpu=False) if on_gpu and not check.quick else small
    found: dict[str, Any] = {}
    for dtype in ("bf16", "fp8") if on_gpu else ("fp32",):
        options = Searched(
            dtype, grid, check.out / f"mamf-{dtype}.journal.jsonl", shape_s=0.25, max_time_s=25.0,
            effort=Effort(2, 4) if check.quick else Effort(),
        )  # fmt: skip
        try:
            outcome = find_maximum(options, check.device, load_config().peaks)
        except RecordingError as error:
            check.missing[f"mamf {dtype}"] = str(error)
            continue
        document = to_json(outcome)
        write_json(check.out / f"mamf-{dtype}.json", document)
        options.journal.unlink()
        found[dtype] = {"best": document["best"], "efficiency": document["efficiency"],
                        "effort": document["effort"], "stopped": outcome.stopped}  # fmt: skip
    return found


def example(check: Check) -> dict[str, Any]:
    """The example project's tests, with their limits for GPUs where there is one."""
    if not EXAMPLE.is_dir():
        raise NotHereError(f"the example project is not beside this script ({EXAMPLE})")
    folder = (check.out / "example").absolute()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--gpuperf-report",
               f"--gpuperf-dir={folder}", f"--gpuperf-device={check.device}"]  # fmt: skip
    command += ["tests/test_matmul.py"] if check.quick else []
    done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, check=False)
    report = folder / "report.json"
    if not report.is_file():
        raise RuntimeError(f"no report: {done.stdout[-800:]}{done.stderr[-800:]}")
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    verdicts = {result["test"]: result["verdict"] for result in results}
    return {"pytest_exit": done.returncode, "verdicts": verdicts, "report": str(report)}


PARTS: dict[str, tuple[Callable[[Check], dict[str, Any]], float]] = {
    "timers": (timers, 60.0),
    "l2_flush": (l2_flush, 45.0),
    "counters": (counters, 45.0),
    "memory": (memory, 45.0),
    "compiled": (compiled, 60.0),
    "one_rank": (one_rank, 45.0),
    "ranks": (ranks, 120.0),
    "mamf": (mamf, 75.0),
    "workloads": (workload_set, 100.0),
    "one_thread": (one_thread, 30.0),
    "example": (example, 180.0),
}
"""Each part, and the seconds that it may take."""
ON_GPU = {
    "l2_flush": "flushing L2",
    "counters": "NVML, GPM and the energy counter",
    "memory": "a memory snapshot",
    "one_thread": "the one-thread kernel",
}
"""The parts that are of a GPU alone, and what they do there."""


@dataclass
class Outcome:
    """One part: ``ran``, ``failed`` or ``not run``."""

    status: str
    reason: str = ""
    seconds: float = 0.0
    values: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def run_part(part: Callable[[Check], dict[str, Any]], check: Check) -> Outcome:
    """`part` in this process, whatever becomes of it."""
    try:
        outcome = Outcome("ran", values=part(check))
    except NotHereError as error:
        outcome = Outcome("not run", str(error))
    except Exception as error:  # noqa: BLE001 - the reason belongs in the record
        traceback.print_exc()
        outcome = Outcome("failed", f"{type(error).__name__}: {error}")
    outcome.missing = check.missing
    return outcome


def run_apart(name: str, out: Path, *, quick: bool, left: float, patience: float) -> Outcome:
    """The part in a process of its own, ended with all that it started when its time is over."""
    if left <= 0:
        return Outcome("not run", "the time for all parts was spent")
    limit = min(PARTS[name][1] * patience, left)
    written = out / f"{name}.json"
    written.unlink(missing_ok=True)
    begin = time.monotonic()
    command = [sys.executable, sys.argv[0], f"--out={out}", f"--inside={name}"]
    command += [f"--ends={begin + limit}", *(["--quick"] if quick else [])]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        status: int | None = process.wait(limit)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        _end(process)
    if written.is_file():
        outcome = Outcome(**json.loads(written.read_text(encoding="utf-8")))
        written.unlink()
    elif status is None:
        outcome = Outcome("failed", f"not done after {limit:.0f} s; where it was is shown above")
    else:
        outcome = Outcome("failed", f"its process ended with status {status}")
    outcome.seconds = round(time.monotonic() - begin, 2)
    return outcome


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the part's process and what it left running."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def inside(name: str, out: Path, *, quick: bool, ends: float) -> None:
    """What a part's own process does: run it, and leave its outcome for the one that started it.

    `ends` is when it will be ended, by the clock that all processes share.
    """
    left = max(ends - time.monotonic(), 1.0)  # of which torch's import has taken its part
    faulthandler.dump_traceback_later(max(left - DUMP_S, left / 2))
    outcome = run_part(PARTS[name][0], Check(resolve_device(), out, quick))
    (out / f"{name}.json").write_text(json.dumps(asdict(outcome)), encoding="utf-8")


def told(name: str, outcome: Outcome) -> str:
    """One part in words, a line a fact."""
    lines = [f"{name:<10} {outcome.status:<8} {outcome.seconds:6.1f} s  {outcome.reason}".rstrip()]
    lines += [f"{'':<10} NOT RUN  {piece}: {why}" for piece, why in outcome.missing.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; 0 where none failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-check"))
    parser.add_argument("--parts", default=",".join(PARTS), help="which to run, by name")
    parser.add_argument("--quick", action="store_true", help="short samples, one example test")
    parser.add_argument("--inside", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--ends", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument(
        "--patience",
        type=float,
        default=1.0,
        help="times as long for each part and all, where the machine is busy",
    )
    options = parser.parse_args(arguments)
    if options.inside:
        inside(options.inside, options.out, quick=options.quick, ends=options.ends)
        return 0
    unknown = set(options.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + BUDGET_S * options.patience
    device = resolve_device()
    document: dict[str, Any] = {"environment": environment(device), "parts": {}}
    if device.type != "cuda":
        print("NO GPU: torch sees no CUDA device; only what a CPU reaches is run", flush=True)
    outcomes = []
    for name in options.parts.split(","):
        if name in ON_GPU and device.type != "cuda":
            why = f"{ON_GPU[name]} needs a CUDA GPU, and torch sees none"
            outcome = Outcome("not run", why)
        else:
            outcome = run_apart(
                name,
                options.out,
                quick=options.quick,
                left=ends - time.monotonic(),
                patience=options.patience,
            )
        outcomes.append(outcome)
        document["parts"][name] = asdict(outcome)
        # After each part, so that the end of this process loses nothing.
        (options.out / "check.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        print(told(name, outcome), flush=True)
    print(f"written: {options.out / 'check.json'} and {options.out / 'traces'}")
    return int(any(outcome.status == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
