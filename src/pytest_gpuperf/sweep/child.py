"""What one rank of a point does, in its own process: load the function, make the step, record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.ranks import RankContext, Target, ToldError

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording import Options

REFUSED = "refused"
"""Key of a value that says why no point of this sweep can be measured."""


def run_rank(context: RankContext, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Record this rank's step: its trace and live block, or why the function cannot be used.

    Raises
    ------
    ToldError
        The step cannot be measured here.
    """
    context.progress.stage("importing torch")
    import torch  # noqa: F401 - the limit is on what comes on top of it

    from pytest_gpuperf.session.ddp_child import join_group, leave_group

    limit_memory(payload["memory_limit"], payload["device"])
    context.progress.stage("loading make_step")
    values = dict(payload["values"])
    if payload["ranked"]:
        values |= {"rank": context.rank, "world_size": context.world_size}
    make_step, why = loaded(payload["target"], values)
    if make_step is None:
        return {REFUSED: why}
    from pytest_gpuperf.recording import SOLO

    coordinator: Any = SOLO
    if payload["ranked"]:
        device, coordinator = join_group(context, payload)
    else:
        device = own_device(payload["device"])
    context.progress.stage("in make_step")
    step, options, notes = prepared(partial(make_step, **values), payload["options"], device)
    context.progress.stage("in the step")
    value = recorded(step, options, device, coordinator, context)
    if payload["ranked"]:
        leave_group(context, coordinator)
    return {**value, "notes": notes}


def recorded(
    step: Callable[[], object],
    options: Options,
    device: torch.device,
    coordinator: Any,
    context: RankContext,
) -> dict[str, Any]:
    """The live block and the trace's path."""
    from gpuperf_analyzers.registry import load_config
    from pytest_gpuperf.recording import record
    from pytest_gpuperf.session.ddp_child import counted, told_errors

    with told_errors():
        found = record(
            counted(step, context.progress),
            device=device,
            options=options,
            trace_path=context.workdir / f"rank{context.rank}.pt.trace.json.gz",
            coordinator=coordinator,
            config=load_config(),
        )
    return {"trace": str(found.trace_path), "block": found.block.to_json()}


def loaded(
    target: Mapping[str, str], values: Mapping[str, Any]
) -> tuple[Callable[..., Any] | None, str]:
    """The user's function; or None and why it cannot be called with `values`."""
    import inspect

    try:
        function: Any = Target.from_json(target).load()
    except MemoryError:
        raise  # the point's, not the function's
    except Exception as error:  # noqa: BLE001 - the user's module may raise anything
        return None, f"{target['path']}: {type(error).__name__}: {error}"
    name = target["qualname"]
    if not callable(function):
        return None, f"{name} of {target['path']} is a {type(function).__name__}, no function"
    try:
        inspect.signature(function).bind(**values)
    except TypeError as error:
        wanted = ", ".join(values)
        return None, f"{name}{inspect.signature(function)} is called with {wanted}: {error}"
    except ValueError:
        pass  # in C, without a signature: the call will tell
    return function, ""


def prepared(
    make_step: Callable[[], Any], options: Mapping[str, Any], device: torch.device
) -> tuple[Callable[[], object], Options, list[str]]:
    """The step, how it is measured, and what is to be told of it.

    Raises
    ------
    ToldError
        What was returned is no step, or cannot run here.
    """
    from pytest_gpuperf.recording import Options, RecordingError
    from pytest_gpuperf.workloads.workload import Workload

    measured = Options(**options)
    try:
        step = make_step()
        if not isinstance(step, Workload):
            if not callable(step):
                raise ToldError(
                    "make_step must return the step, a function without arguments, or a workload; "
                    f"it returned a {type(step).__name__}"
                )
            return step, measured, []
        ready = step.on(device)
    except RecordingError as error:
        raise ToldError(str(error)) from error
    if ready.untimed:
        raise ToldError(ready.untimed)
    if ready.check is not None:
        ready.check()
    declared: dict[str, Any] = step.declared()
    if "tokens" in declared:
        declared |= {"items": declared.pop("tokens"), "items_unit": "tokens"}
    if measured.items is not None:  # what the command says stands
        declared.pop("items", None)
        declared.pop("items_unit", None)
    return ready.step, replace(measured, **declared), list(step.notes)


def own_device(spec: str) -> torch.device:
    """The device of a point without other ranks, made the current one."""
    import torch

    from pytest_gpuperf.recording import resolve_device

    device = resolve_device(spec)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def limit_memory(limit: int | None, device: str) -> None:
    """Let this process take `limit` bytes more than it has: addresses, or the GPU's allocator.

    Raises
    ------
    ToldError
        This system has no such limit.
    """
    if limit is None:
        return
    if device.startswith("cuda"):
        import torch

        for index in range(torch.cuda.device_count()):
            whole = torch.cuda.get_device_properties(index).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, limit / whole), index)
        return
    if sys.platform != "linux":
        raise ToldError("--memory-limit of a CPU is of Linux: leave it out here")
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + limit
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
