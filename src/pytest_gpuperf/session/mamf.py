"""The object that the fixture ``gpuperf_mamf`` hands to a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuperf_analyzers.limits import Verdict

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording.mamf_cache import CachedMamf


class Mamf:
    """Looks up measured maxima of one device; a call names the dtype."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __call__(self, dtype: str) -> CachedMamf:
        """The maximum of `dtype` (``bf16``) that ``gpuperf mamf`` found here, with its shape.

        The test is skipped where none is kept: nothing is measured that would take minutes.

        Raises
        ------
        pytest.UsageError
            No dtype that is measured.
        """
        __tracebackhide__ = True
        from pytest_gpuperf.recording.mamf_cache import DTYPES, cached_mamf, mamf_command

        if dtype not in DTYPES:
            raise pytest.UsageError(
                f"gpuperf_mamf({dtype!r}): `gpuperf mamf` measures {', '.join(DTYPES)}"
            )
        found = cached_mamf(self._device, dtype)
        if found is None:
            pytest.skip(f"{Verdict.UNMEASURED}: {mamf_command(self._device, dtype)}")
        return found
