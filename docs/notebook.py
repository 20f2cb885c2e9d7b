# %% [markdown]
# # From a folder of ranks to tables and a picture
#
# A notebook in percent cells: open it in an editor that knows them, turn it into one with
# `jupytext --to notebook notebook.py`, or run it as it is:
#
#     python notebook.py traces/ picture.png
#
# The folder holds the traces of one job, a file a rank, as `torch.profiler` exports them.

# %%
"""Tables of every rank, and where each rank's time went as a picture."""

import sys
from pathlib import Path

import pandas as pd

from gpuperf_analyzers import analyze_set, read_traces

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "traces"
PICTURE = sys.argv[2] if len(sys.argv) > 2 else "ranks.png"


def show(title: str, frame: pd.DataFrame) -> None:
    """Print a whole table; in a notebook, end the cell with the frame itself instead."""
    print(title)
    if frame.empty:
        print("  none in this trace\n")
    else:
        print(frame.to_string(max_colwidth=48, float_format="{:,.4g}".format), end="\n\n")


# %% [markdown]
# ## From the folder to the reason of the slowest step
#
# The paragraph that `gpuperf analyze` opens with, then the slowest step of all ranks and the part
# of it that took longer than in the median step.

# %%
found = analyze_set(read_traces(FOLDER))
print(found.summary.text, end="\n\n")
steps = pd.concat(
    device.results["outliers"].to_frame().assign(rank=rank.label)
    for rank in found.ranks
    for device in rank.devices
).set_index(["rank", "step"])
longer = (steps - steps.median()).drop(columns="slow").loc[steps["time_us"].idxmax()]
part = longer.drop("time_us").idxmax()
print(f"slowest: {longer.name}, {longer['time_us']:,.0f} µs over the median: {part}", end="\n\n")

# %% [markdown]
# ## All ranks
#
# What could not be read is in `failed`, what is not to be trusted in `findings`; a metric that a
# finding makes invalid has its reason in `invalid`.

# %%
show("metrics", found.to_frame().drop(columns="path").set_index("rank").T)
for finding in found.findings:
    print(f"! {finding.at} {finding.message} ({finding.code})")

# %% [markdown]
# ## The timeline of each rank
#
# Times are in µs and in unions of intervals: exact, whatever runs beside what. A row a rank, of
# its whole window and of each step.

# %%
timelines = pd.concat(
    [
        device.timeline.to_frame().assign(rank=rank.label, device=device.label)
        for rank in found.ranks
        for device in rank.devices
    ],
    ignore_index=True,
)
show("timelines", timelines.set_index(["rank", "device", "name"]))

# %% [markdown]
# ## The slowest rank in detail
#
# Each question has its table: ops with their shapes, FLOPs against the device's roofline,
# modules forward and backward, what the host launched, what waited.

# %%
slowest = max(found.ranks, key=lambda rank: rank.values["window"].value or 0.0)
results = slowest.devices[0].results
print(slowest.label or slowest.path, end="\n\n")
show("ops", results["kernels"].ops_frame().head(10))
show("kernels", results["kernels"].to_frame().head(10))
show("FLOPs", results["flops"].to_frame().head(10))
show(
    "modules",
    results["modules"].to_frame().sort_values("own_us", ascending=False).head(10),
)
show("launch-bound ops", results["launchers"].to_frame().head(10))
show("host", results["host"].to_frame())

# %% [markdown]
# ## Who waited for whom
#
# With every rank at hand a collective's time is split: waiting for the last rank to come, and the
# transfer itself.

# %%
if found.collectives is not None and found.collectives.calls:
    calls = found.collectives.to_frame().sort_values("time_us", ascending=False)
    show("collectives over all ranks", calls.head(10))
    show("by size", found.collectives.by_size())
show("gradient buckets", results["ddp_buckets"].to_frame())

# %% [markdown]
# ## Where each rank's time went
#
# The parts add up to the window: compute, communication and copies that nothing hides, and idle.

# %%
windows = timelines[timelines["name"] == "window"].set_index(["rank", "device"])
parts = windows[["compute_us", "exposed_comm_us", "exposed_memory_us", "idle_us"]] / 1e3
parts.columns = ["compute", "exposed communication", "exposed copies", "idle"]
show("ms by rank", parts)

# %%
try:
    from matplotlib.figure import Figure
except ImportError:
    print('no picture: pip install "pytest-gpuperf[plot]"')
else:
    figure = Figure(figsize=(8, 1.5 + 0.4 * len(parts)), layout="constrained")
    axes = figure.subplots()
    left = pd.Series(0.0, index=parts.index)
    labels = [" ".join(filter(None, place)) for place in parts.index]
    for name in parts:
        axes.barh(labels, parts[name], left=left, label=name)
        left += parts[name]
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    figure.legend(loc="outside upper center", ncols=4)
    figure.savefig(PICTURE, dpi=120)
    print(f"picture: {Path(PICTURE).resolve()}")
