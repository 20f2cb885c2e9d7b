"""What torch says of itself, and a profile of one matmul: asked in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

SECONDS = 120.0
"""Time limit of the child: importing torch on a slow disk takes half a minute."""

_ASK = """
import sys
sys.path[:] = filter(None, sys.path)  # a file in the folder of work is no module of ours
import json
try:
    import torch
except BaseException as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}))
    sys.exit()
told = {"version": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip}
try:
    told["available"] = torch.cuda.is_available()
    told["devices"] = torch.cuda.device_count()
    if told["available"]:
        torch.zeros(1, device="cuda")
except BaseException as error:
    told["cuda_error"] = " ".join(str(error).split())[:300]
try:
    from torch.profiler import ProfilerActivity, profile
    gpu = bool(told.get("available")) and "cuda_error" not in told
    device = "cuda" if gpu else "cpu"
    a = torch.randn(256, 256, device=device)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * gpu
    with profile(activities=activities) as prof:
        a @ a
        if gpu:
            torch.cuda.synchronize()
    events = prof.events()
    told["ops"] = sum(e.name == "aten::mm" for e in events)
    told["kernels"] = sum(str(e.device_type).endswith(("CUDA", "HIP")) for e in events)
    told["profiled_on"] = device
except BaseException as error:
    told["profile_error"] = " ".join(str(error).split())[:300]
print(json.dumps(told))
"""


@dataclass(frozen=True, slots=True)
class TorchFacts:
    """What torch told.

    Attributes
    ----------
    version, cuda, hip
        torch's version and the CUDA or ROCm it was built for; "" where there is none.
    available, devices
        ``torch.cuda.is_available()`` and the number of devices.
    cuda_error
        Why a tensor could not be made on the device.
    ops, kernels, profiled_on
        Of a profile of one matmul: ``aten::mm`` calls and device kernels, and where it ran.
    profile_error
        Why there is no profile.
    error
        Why torch itself told nothing.
    """

    version: str = ""
    cuda: str = ""
    hip: str = ""
    available: bool = False
    devices: int = 0
    cuda_error: str = ""
    ops: int | None = None
    kernels: int | None = None
    profiled_on: str = ""
    profile_error: str = ""
    error: str = ""


def ask_torch(seconds: float = SECONDS) -> TorchFacts:
    """What torch says; whatever it does to its own process, this one goes on."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK],
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return TorchFacts(error=f"importing torch and one matmul took more than {seconds:g} s")
    except OSError as error:
        return TorchFacts(error=str(error))
    return facts_of(done.stdout, done.returncode)


def facts_of(output: str, returncode: int) -> TorchFacts:
    """The facts in the child's last line; its death where it has none."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    try:
        told: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    except ValueError:
        told = {}
    if not told:
        how = f"signal {-returncode}" if returncode < 0 else f"exit status {returncode}"
        return TorchFacts(error=f"the process that imported torch ended with {how}")
    known = set(TorchFacts.__dataclass_fields__)
    return TorchFacts(**{k: v for k, v in told.items() if k in known and v is not None})
