"""The package imports nothing until it is asked."""

from __future__ import annotations

import subprocess
import sys

from pytest_gpuperf.recording import telemetry


def test_every_name_is_found_where_it_is_said_to_be() -> None:
    assert all(getattr(telemetry, name) is not None for name in telemetry.__all__)


def test_importing_it_imports_no_binding() -> None:
    code = "import sys, pytest_gpuperf.recording.telemetry; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
