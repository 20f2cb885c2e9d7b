"""What a collective is called, how much of its traffic crosses a link, how big its elements are.

The bus-bandwidth factors are those of nccl-tests' PERFORMANCE.md: they turn bytes over time into
what each link carried, whatever the number of ranks.
"""

from __future__ import annotations

import re

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        # The order matters: a reduce-scatter is no reduce, an all-gather no gather.
        ("all_reduce", r"all_?reduce|one_?shot|two_?shot|cross_device_reduce"),
        ("reduce_scatter", r"reduce_?scatter"),
        ("all_gather", r"all_?gather"),
        ("all_to_all", r"all_?to_?all"),
        ("broadcast", r"broadcast"),
        ("barrier", r"barrier"),
        ("send_recv", r"send_?recv|\bsend\b|\brecv\b|recv_any|[:_]send|[:_]recv"),
        ("gather", r"gather"),
        ("scatter", r"scatter"),
        ("reduce", r"reduce"),
    )
)
UNKNOWN = "unknown"
SYNCHRONIZING = frozenset({"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier"})
"""Kinds that no rank can leave before every rank has come."""

_SHARED = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
_WHOLE = frozenset({"broadcast", "reduce", "send_recv"})

_BYTES = {
    "float": 4, "double": 8, "half": 2, "bfloat16": 2, "long": 8, "long int": 8, "int": 4,
    "short": 2, "short int": 2, "char": 1, "signed char": 1, "byte": 1, "unsigned char": 1,
    "bool": 1, "complexfloat": 8, "complex<float>": 8, "complexdouble": 16,
    "complex<double>": 16, "unsigned int": 4, "unsigned long": 8,
}  # fmt: skip

_PAYLOAD = {"simple": 1.0, "ll": 4 / 8, "ll128": 120 / 128}
"""What of each word or line on the wire is data; the rest are flags that say it has come."""

SIZE_BUCKETS = (2**10, 2**15, 2**20, 2**25, 2**30)
"""Upper bounds in bytes of the buckets in which collectives are summed up."""

_KERNEL_HINT = re.compile(
    r"_(?P<algorithm>RING|TREE|COLLNET_\w+?|NVLS(?:_TREE)?|PAT)_(?P<protocol>LL128|LL|SIMPLE)",
    re.IGNORECASE,
)


def kind_of(name: str) -> str:
    """``all_reduce``, ``all_gather``, … from any of the names in use; ``unknown``."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), UNKNOWN)


def bus_factor(kind: str, ranks: int) -> float | None:
    """Bus bandwidth over algorithm bandwidth of a collective among `ranks`.

    2(n-1)/n for all-reduce; (n-1)/n where each rank keeps a share; 1 where all bytes cross once.
    None for kinds without a factor, or where `ranks` is below 2.
    """
    if ranks < 2:
        return None
    if kind == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if kind in _SHARED:
        return (ranks - 1) / ranks
    return 1.0 if kind in _WHOLE else None


def element_bytes(dtype: str) -> int | None:
    """Bytes of an element of NCCL's or the profiler's type name, None where it is not known."""
    name = dtype.lower().removeprefix("struct ").removeprefix("c10::")
    return 1 if name.startswith("float8") else _BYTES.get(name)


def kernel_hint(name: str) -> tuple[str, str]:
    """Algorithm and protocol as a kernel's name has them (``ring``, ``ll``): a hint, no more.

    NCCL links one kernel for several algorithms, so that a name may not say what ran.
    """
    found = _KERNEL_HINT.search(name)
    return (found["algorithm"].lower(), found["protocol"].lower()) if found else ("", "")


def payload_share(protocol: str) -> float | None:
    """Data / bytes on the wire of one of NCCL's protocols, None where it is not known.

    LL sends 4 bytes of flag with every 4 of data, LL128 8 with every 120.
    """
    return _PAYLOAD.get(protocol)


def size_bucket(size: int | None) -> float:
    """The upper bound of the bucket that `size` bytes fall in, infinity above the last."""
    return float(next((bound for bound in SIZE_BUCKETS if (size or 0) <= bound), float("inf")))
