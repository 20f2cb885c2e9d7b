"""Names from tests and traces can neither run nor break anything; a policy stands behind that."""

from __future__ import annotations

import re
from pathlib import Path

from kineto import KinetoTrace
from plugin.report.html.conftest import Open
from plugin.report.html.pages import HOSTILE, write
from plugin.report.records import record
from pytest_gpuperf.cli import main


def test_hostile_test_names_are_text(tmp_path: Path, browse: Open) -> None:
    given = [record(test=name, name=name, traces=[], notes=[name], failure=name,
                    extra_info={name: name}, environment={name: name},
                    device=name) for name in HOSTILE]  # fmt: skip
    page = write(tmp_path / "report.html", *given)
    assert page.stat().st_size < 3e6
    driver = browse(page, "all")
    assert driver.execute_script("return window.hacked === undefined")
    assert driver.find_elements("css selector", "img, iframe, object, embed") == []
    assert len(driver.find_elements("css selector", "body script")) == 2
    text = driver.find_element("tag name", "body").text
    assert "<script>window.hacked=1</script>" in text
    assert "{{ 7*7 }}" in text
    assert "49" not in re.findall(r"x\.py::(\d+)", text)
    # Direction marks are written out, so that they turn nothing around.
    assert not set("\u202e\u2066\u2069\u2028") & set(text)
    assert "\\u202e" in text


def test_hostile_names_in_a_trace_are_text(tmp_path: Path, browse: Open) -> None:
    t = KinetoTrace(device_name='NVIDIA </script><img src=x onerror="window.hacked=9">')
    with t.step(1, at=0, dur=400):
        for i, name in enumerate(HOSTILE):
            t.op(name, at=10 + 40 * i, dur=5, dims=[[64, 32]], dtypes=[name[:50]])
            t.launch(name, at=12 + 40 * i, runs=(20 + 40 * i, 30 + 40 * i), stream=7)
    path = t.write(tmp_path / "rank0.json")
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    driver = browse(tmp_path / "page.html", "all")
    driver.execute_async_script("drawShown().then(arguments[0])")
    assert driver.execute_script("return window.hacked === undefined")
    assert driver.find_elements("css selector", "img") == []


def test_what_is_written_into_the_page_is_stopped_by_the_policy(
    tmp_path: Path, browse: Open
) -> None:
    """Were the escaping to fail, nothing would run and nothing would be fetched."""
    page = write(tmp_path / "report.html", record(traces=[]))
    injected = (
        "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
        "<p id=styled style='color: rgb(1, 2, 3)'>a</p>"
        "<a id=link href='javascript:window.hacked = 3'>b</a>"
        "<img src='https://example.invalid/pixel.png'><iframe src='data:text/html,x'></iframe>"
        "<form id=form action='https://example.invalid/'><button id=send>c</button></form>"
        "<base href='https://example.invalid/'><style>#styled { color: rgb(4, 5, 6) }</style>"
    )
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("<main", injected + "<main", 1), encoding="utf-8")
    driver = browse(page, errors=True)
    driver.execute_script("document.getElementById('link').click()")
    driver.execute_script("document.getElementById('send').click()")
    assert driver.execute_script("return window.hacked === undefined")
    colour = "return getComputedStyle(document.getElementById('styled')).color"
    assert driver.execute_script(colour) not in {"rgb(1, 2, 3)", "rgb(4, 5, 6)"}
    assert driver.execute_script("return document.baseURI").startswith("file:")
    assert driver.current_url.startswith("file:")
    refused = " ".join(entry["message"] for entry in driver.get_log("browser"))
    for directive in ("script-src", "style-src", "img-src", "form-action", "base-uri"):
        assert directive in refused


def test_nothing_is_loaded_from_outside(tmp_path: Path, browse: Open) -> None:
    page = write(tmp_path / "report.html", record(traces=[]))
    driver = browse(page, "all")
    driver.execute_async_script("drawShown().then(arguments[0])")
    loaded = driver.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
        ".filter(n => !n.startsWith('data:') && !n.startsWith('blob:'))"
    )
    assert loaded == []
    blocked = driver.execute_async_script(
        "const done = arguments[0]; fetch('https://example.invalid/').then(() => done('fetched'),"
        " () => done('refused'))"
    )
    assert blocked == "refused"
    assert any("connect-src" in e["message"] or "default-src" in e["message"]
               for e in driver.get_log("browser"))  # fmt: skip
