"""Where traces go: one folder a test, and none left empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.session.places import discard, folder_name


def test_a_plain_name_stays_what_it_is() -> None:
    assert folder_name("forward") == "forward"
    assert folder_name("n=512") == "n=512"


@pytest.mark.parametrize(
    "text",
    ["tests/test_a.py::test_b[1-x]", "../../etc/passwd", "a b\n\x1b[31m", "…", ".", "x" * 500, ""],
)
def test_any_text_becomes_one_harmless_short_folder(text: str) -> None:
    name = folder_name(text)
    assert Path(name).name == name
    assert name not in {"", ".", ".."}
    assert len(name) <= 100
    assert name.isprintable()


def test_different_texts_get_different_folders() -> None:
    texts = ["a/b", "a:b", "a b", "a-b", "x" * 300 + "1", "x" * 300 + "2"]
    assert len({folder_name(text) for text in texts}) == len(texts)


def test_discarding_traces_leaves_no_empty_folder_and_nothing_of_others(tmp_path: Path) -> None:
    root = tmp_path / ".gpuperf" / "traces"
    kept = root / "test_kept" / "0" / "rank0.json"
    gone = root / "test_gone" / "0" / "rank0.json"
    for path in (kept, gone):
        path.parent.mkdir(parents=True)
        path.touch()
    discard((gone,), root=root)
    assert not (root / "test_gone").exists()
    assert kept.exists()
    discard((kept,), root=root)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_is_gone_already_is_no_error(tmp_path: Path) -> None:
    discard((tmp_path / "a" / "b.json",), root=tmp_path / "a")
