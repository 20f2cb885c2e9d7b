"""A function is named so that another process loads the same one, or refused with the reason."""

import functools
import subprocess
import sys
import textwrap

import pytest

from pytest_gpuperf.ranks import Target


def at_module_level(rank, world_size):
    return rank, world_size


class AtModuleLevel:
    def method(self):
        return self


def _nested():
    def inner():
        return None

    return inner


@functools.wraps(at_module_level)
def replaced(*args):
    return at_module_level(*args)


def test_a_module_level_function_is_loaded_as_the_same_object():
    assert Target.from_json(Target.of(at_module_level).to_json()).load() is at_module_level


def test_a_module_level_class_is_a_target_too():
    assert Target.of(AtModuleLevel).load() is AtModuleLevel


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda: None, "make_step is a lambda"),
        (_nested(), r"make_step _nested.<locals>.inner is defined inside another function"),
        (AtModuleLevel().method, "make_step AtModuleLevel.method is a bound method"),
        (AtModuleLevel.method, "make_step AtModuleLevel.method is defined inside a class"),
        (functools.partial(at_module_level, 0), "make_step is a partial object"),
        (replaced, "make_step at_module_level is not what .*at_module_level holds"),
        (7, "make_step is not callable: 7"),
    ],
)
def test_what_another_process_cannot_find_is_refused_with_the_reason(function, reason):
    with pytest.raises(ValueError, match=f"^{reason}"):
        Target.of(function, role="make_step")


def test_a_refusal_says_the_mend():
    with pytest.raises(ValueError, match="define it with def at the top level of the test module"):
        Target.of(lambda: None)


def _load_elsewhere(target):
    """What the target's function returns in a fresh interpreter that was told nothing else."""
    code = textwrap.dedent(f"""
        from pytest_gpuperf.ranks import Target
        function = Target.from_json({target.to_json()!r}).load()
        print(function(), function.__module__)
    """)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.split()


def test_relative_imports_work_when_the_module_is_a_package_off_the_path(tmp_path):
    package = tmp_path / "suite" / "perf"
    package.mkdir(parents=True)
    (tmp_path / "suite" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "answers.py").write_text("ANSWER = 42\n")
    (package / "test_it.py").write_text(
        "from .answers import ANSWER\ndef make():\n    return ANSWER\n"
    )
    target = Target(str(package / "test_it.py"), "make", "suite.perf.test_it")
    assert _load_elsewhere(target) == ["42", "suite.perf.test_it"]


def test_a_file_whose_module_name_belongs_to_another_file_is_loaded_by_its_path(tmp_path):
    (tmp_path / "json.py").write_text("def make():\n    return 'mine'\n")
    target = Target(str(tmp_path / "json.py"), "make", "json")
    assert _load_elsewhere(target)[0] == "mine"


def test_a_name_that_the_file_has_not_is_an_import_error(tmp_path):
    file = tmp_path / "empty_module_for_target.py"
    file.touch()
    with pytest.raises(ImportError, match=r"empty_module_for_target\.py has no 'make'"):
        Target(str(file), "make").load()
