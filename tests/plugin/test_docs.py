"""Every example in the documentation runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python(?P<kind> [a-z-]+)?\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def _blocks(kind: str) -> list[object]:
    found = []
    for page in PAGES:
        for index, block in enumerate(_BLOCK.finditer(page.read_text())):
            if (block["kind"] or "").strip() == kind:
                name = f"{page.relative_to(ROOT)}-{index}"
                found.append(pytest.param(block["code"], id=name))
    return found


@pytest.mark.parametrize("code", _blocks(""))
def test_an_example_test_passes(pytester: pytest.Pytester, code: str) -> None:
    pytester.makepyfile(test_example=code)
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-o", "gpuperf_warmup=10ms", "-o", "gpuperf_max_time=50ms",
        "--gpuperf-device=cpu",
    )  # fmt: skip
    outcomes = result.parseoutcomes()
    assert outcomes.get("passed", 0) >= 1
    assert set(outcomes) <= {"passed"}


@pytest.mark.parametrize("code", _blocks("conftest"))
def test_an_example_conftest_is_accepted(pytester: pytest.Pytester, code: str) -> None:
    pytester.makeconftest(code)
    pytester.makepyfile(
        """
        def test_configuration(gpuperf):
            config = gpuperf._run.config()
            assert "mylib::scale_rows" in config.flop_formulas
            assert any("Acme X1" in peak.names for peak in config.peaks)
            assert any(test("acme_allreduce_v2") for test in config.comm_classifiers)
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
