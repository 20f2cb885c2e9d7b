"""pytest's door: options, the marker, the fixture, and the hooks that judge and report.

Imported at every start of pytest, so nothing heavy may be imported here: numpy, torch and rich
are imported where something is measured or shown.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuperf_analyzers.limits import LimitError
from pytest_gpuperf.keeping import (
    BASELINE_NAME,
    BASELINES_FOLDER,
    DEFAULT_BASELINE,
    HISTORY_FILE,
    Keeping,
    KeepingError,
    with_values,
)
from pytest_gpuperf.results import BuiltInReports, Results, option, path_option
from pytest_gpuperf.session.collecting import DECLARED, MISTAKE, declare, select
from pytest_gpuperf.session.declaration import DEFAULTED, Declaration, parse_defaults
from pytest_gpuperf.session.held_memory import HELD, held_bytes
from pytest_gpuperf.session.places import DEFAULT_DIRECTORY
from pytest_gpuperf.session.profiler_noise import without_profiler_noise
from pytest_gpuperf.session.run import Run
from pytest_gpuperf.session.running import (
    BODY,
    BODY_IS_MEASURED,
    ITEM,
    finished,
    judged_call,
    observations,
    require_torch,
)

if TYPE_CHECKING:
    import pluggy
    import torch

    from pytest_gpuperf.session.fixture import Gpuperf
    from pytest_gpuperf.session.mamf import Mamf

RUN = pytest.StashKey[Run]()
SIDE = "GPUPERF_SIDE"
"""Set in a process that measures one side of a comparison of two revisions."""
KEEPING = pytest.StashKey[Keeping]()

MARKER = (
    "gpuperf(**limits): measure this test and hold it to limits such as min_tflops=0.5, "
    'max_step_time="3ms", min_overlap={"NVIDIA H100": 0.6, "cpu": 0.1}; '
    "`gpuperf metrics` lists every metric"
)
_INI_HELP = {
    "warmup": 'time spent calling a workload before the first sample ("1s")',
    "max_time": 'time after which no further sample is begun ("2s")',
    "steps": "profiled steps (3)",
    "timeout": 'time limit of the ranks of one gpuperf.ddp call ("60s")',
    "timer": "wall, event, graph or kernel (by default event on CUDA, wall elsewhere)",
    "l2": "a GPU's L2 cache before each sample: hot or cold",
    "breakdown": "whether memory is broken down by category (true, false)",
    "dtype": "dtype that declared FLOPs are executed in",
    "device": "device to measure on",
    "dcgm_url": "--gpuperf-dcgm-url: address of a dcgm-exporter",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the group ``gpuperf`` and their ini mirrors."""
    group = parser.getgroup("gpuperf", "performance of GPU code")

    def flag(name: str, text: str) -> None:
        group.addoption(f"--gpuperf-{name}", action="store_true", default=None, help=text)
        parser.addini(f"gpuperf_{name}", f"--gpuperf-{name}: {text}", type="bool", default=False)

    def value(name: str, metavar: str, text: str, default: str = "") -> None:
        group.addoption(f"--gpuperf-{name}", metavar=metavar, default=None, help=text)
        if name not in DEFAULTED:
            key = f"gpuperf_{name.replace('-', '_')}"
            parser.addini(key, f"--gpuperf-{name}: {text}", default=default)

    flag("report", "show a table of all results, and keep a report and every trace")
    value(
        "dir", "DIR", f"where the report and the traces go ({DEFAULT_DIRECTORY})", DEFAULT_DIRECTORY
    )
    value("json", "PATH", "write the report as JSON to PATH")
    value("markdown", "PATH", "write the report as markdown to PATH")
    value("gitlab", "PATH", "write what is not PASS to PATH, in GitLab's Code Quality format")
    flag("github", "print what is not PASS as annotations of GitHub Actions")
    value("html", "PATH", "write the report as one HTML page to PATH")
    value("prometheus", "PATH", "write results to PATH.prom for node_exporter's textfile collector")
    value("baselines", "DIR", f"where baselines are kept ({BASELINES_FOLDER})", BASELINES_FOLDER)
    group.addoption(
        "--gpuperf-save", metavar="=NAME", nargs="?", const=DEFAULT_BASELINE, default=None,
        help="save what is measured to the baseline NAME (default), tests that fail left out",
    )  # fmt: skip
    group.addoption(
        "--gpuperf-compare", metavar="=NAME", nargs="?", const=DEFAULT_BASELINE, default=None,
        help="compare with the baseline NAME (default), and tests without a limit on it too",
    )  # fmt: skip
    parser.addini("gpuperf_compare", "--gpuperf-compare: name of a baseline", default="")
    group.addoption(
        "--gpuperf-history", metavar="=PATH", nargs="?", const="", default=None,
        help="add a line for each metric to the history (DIR/history.jsonl)",
    )  # fmt: skip
    parser.addini("gpuperf_history", "--gpuperf-history: path of the history", default="")
    parser.addini("gpuperf_baseline_runs", "saved runs kept of each measurement (10)", default="10")
    parser.addini(
        "gpuperf_counts_across_cpus",
        "compare exact counts with a baseline of another CPU of the same torch",
        type="bool",
        default=False,
    )
    group.addoption(
        "--gpuperf-against", metavar="REV", default=None,
        help="measure the git revision REV too, in pairs of processes, and judge max_regression "
        "and exact by the difference",
    )  # fmt: skip
    value("pairs", "N", "most pairs of processes of --gpuperf-against (32)", "32")
    value("against-env", "PYTHON", "the Python or environment folder that the revision runs on")
    value("against-setup", "COMMAND", "run in the revision's checkout first, to build it")
    value("device", "DEVICE", "device to measure on: cpu, cuda or cuda:N")
    group.addoption(
        "--gpuperf-dcgm-url", metavar="URL", default=None,
        help="a dcgm-exporter (http://localhost:9400/metrics) that tells how full a GPU without "
        "GPM is",
    )  # fmt: skip
    flag("strict", "let AMBIGUOUS, UNMEASURED, NO-BASELINE and INCOMPARABLE fail too")
    flag("disable", "run each workload once, unmeasured")
    flag("only", "run only the tests that measure")
    flag("skip", "skip the tests that measure")
    for name in DEFAULTED:
        parser.addini(f"gpuperf_{name}", _INI_HELP[name], default="")
    parser.addini(
        "gpuperf_samples", "whether the JSON report holds every sample", type="bool", default=True
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, read the settings, and gather results where reports arrive."""
    config.addinivalue_line("markers", MARKER)
    if option(config, "only") and option(config, "skip"):
        raise pytest.UsageError("--gpuperf-only and --gpuperf-skip leave no test to run")
    if option(config, "prometheus") and find_spec("prometheus_client") is None:
        raise pytest.UsageError(
            "--gpuperf-prometheus needs prometheus-client: pip install 'pytest-gpuperf[prometheus]'"
        )
    try:
        defaults = parse_defaults(
            {
                **{name: config.getini(f"gpuperf_{name}") for name in DEFAULTED},
                **({"dcgm_url": url} if (url := config.getoption("gpuperf_dcgm_url")) else {}),
            },
            device=config.getoption("gpuperf_device"),
        )
    except LimitError as error:
        raise pytest.UsageError(f"gpuperf: {error}") from None
    report = bool(option(config, "report") or option(config, "html"))
    directory = path_option(config, "dir")
    assert directory is not None  # noqa: S101 - the ini option has a default
    keeping = _keeping(config, directory)
    config.stash[KEEPING] = keeping
    if not (option(config, "disable") or hasattr(config, "workerinput")):
        try:
            keeping.check()
        except KeepingError as error:
            raise pytest.UsageError(str(error)) from None
    config.stash[RUN] = Run(
        directory=directory,
        called_from=config.invocation_params.dir,
        defaults=defaults,
        make_hooks=lambda: _hooks(config),
        disabled=bool(option(config, "disable")),
        strict=bool(option(config, "strict")),
        keep_traces=report,
        make_baselines=keeping.baselines,
    )
    if SIDE in os.environ:
        from pytest_gpuperf.baselines.against.side import register

        register(config, config.stash[RUN])
    _against(config)
    # A worker of a parallel run sends its reports to the controller, which tells the results.
    if not hasattr(config, "workerinput"):
        results = Results(config, config.stash[RUN], keeping)
        config.pluginmanager.register(results, "gpuperf-results")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Let an option with an optional value take it with ``=`` only.

    Left to itself the parser would take the folder of tests in ``--gpuperf-save tests`` for the
    name.
    """
    written = with_values(args)
    if written != args:
        args[:] = written
        early_config.known_args_namespace = parser.parse_known_args(
            args, namespace=copy.copy(early_config.option)
        )


def _against(config: pytest.Config) -> None:
    """Have the run compared with a revision, where that is asked for.

    Raises
    ------
    pytest.UsageError
        It cannot be compared with one, or not beside what else is asked for.
    """
    revision = config.getoption("gpuperf_against")
    if revision is None:
        return
    from pytest_gpuperf.against import against

    config.pluginmanager.register(against(config, config.stash[RUN], revision), "gpuperf-against")


def _keeping(config: pytest.Config, directory: Path) -> Keeping:
    """What is to be kept of this run.

    Raises
    ------
    pytest.UsageError
        A name or number that cannot be used.
    """
    names = {}
    for word in ("save", "compare"):
        given = option(config, word)
        if given and not BASELINE_NAME.fullmatch(given):
            raise pytest.UsageError(
                f"--gpuperf-{word}={given!r}: a name is made of letters, digits, '.', '_' and '-'"
            )
        names[word] = given or None
    runs = str(config.getini("gpuperf_baseline_runs"))
    if not (runs.isascii() and runs.isdigit() and int(runs) > 0):
        raise pytest.UsageError(f"gpuperf_baseline_runs: {runs!r} is not a number of 1 or more")
    folder = path_option(config, "baselines")
    assert folder is not None  # noqa: S101 - the ini option has a default
    asked = config.getoption("gpuperf_history", None) == ""
    return Keeping(
        folder=folder,
        save=names["save"],
        compare=names["compare"],
        runs=int(runs),
        across_cpus=bool(config.getini("gpuperf_counts_across_cpus")),
        history=directory / HISTORY_FILE if asked else path_option(config, "history"),
    )


def _hooks(config: pytest.Config) -> pluggy.PluginManager:
    """Our hookspecs with the built-in plugin, installed ones, and pytest plugins that have some.

    A ``conftest.py`` is a pytest plugin, so its hook implementations are found here.
    """
    from gpuperf_analyzers.registry import plugin_manager

    manager = plugin_manager(BuiltInReports(config, config.stash[RUN].config))
    for plugin in config.pluginmanager.get_plugins():
        names = [name for name in dir(plugin) if name.startswith("gpuperf_")]
        implements = any(hasattr(getattr(plugin, name, None), "gpuperf_impl") for name in names)
        if implements and not manager.is_registered(plugin):
            manager.register(plugin)
    try:
        manager.check_pending()
    except Exception as error:
        raise pytest.UsageError(f"gpuperf: {error}") from error
    return manager


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Parse every marker; a misspelt limit ends the run here, before anything is measured."""
    run = config.stash[RUN]
    mistaken = declare(items, run)
    if mistaken and hasattr(config, "workerinput"):
        # A worker of a parallel run cannot end it: there these tests, and no others, fail.
        items[:] = mistaken
    elif mistaken:
        raise pytest.UsageError(*(item.stash[MISTAKE] for item in mistaken))
    select(config, items, only=option(config, "only"), skip=option(config, "skip"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell a mistake in a worker's test; skip what measures where there is no torch."""
    if MISTAKE in item.stash:
        pytest.fail(item.stash[MISTAKE], pytrace=False)
    if item.stash.get(DECLARED, None) is not None and not item.config.stash[RUN].disabled:
        require_torch()
        item.stash[HELD] = held_bytes()


@pytest.fixture
def gpuperf(request: pytest.FixtureRequest) -> Gpuperf:
    """Measures a workload: ``gpuperf(fn, *args)`` returns what ``fn`` returns.

    ``gpuperf.result`` has the numbers; the limits of the marker ``gpuperf`` judge them.
    """
    from pytest_gpuperf.session.fixture import Gpuperf as Fixture

    run = request.config.stash[RUN]
    if not run.disabled:
        require_torch()
    item = request.node
    if BODY in item.stash:
        pytest.fail(BODY_IS_MEASURED, pytrace=False)
    declaration = item.stash.get(DECLARED, None) or run.defaults
    measured = Fixture(item.nodeid, declaration, run)
    item.stash[ITEM] = measured
    return measured


@pytest.fixture
def gpuperf_device(request: pytest.FixtureRequest) -> torch.device:
    """The device that this test is measured on, for fixtures that make its inputs."""
    from pytest_gpuperf.session.fixture import Gpuperf as Fixture

    run = request.config.stash[RUN]
    require_torch()
    declaration: Declaration = request.node.stash.get(DECLARED, None) or run.defaults
    return Fixture(request.node.nodeid, declaration, run).device


@pytest.fixture
def gpuperf_mamf(gpuperf_device: torch.device) -> Mamf:
    """The measured maximum matmul FLOPS of this device: ``gpuperf_mamf("bf16").tflops``.

    Read from what ``gpuperf mamf`` kept; where it kept nothing the test is skipped, UNMEASURED,
    with the command that measures it.
    """
    from pytest_gpuperf.session.mamf import Mamf as Fixture

    return Fixture(gpuperf_device)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure a body that is the workload, and judge what was measured."""
    return (yield from judged_call(item, item.config.stash[RUN]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the results to the report of the call, so that they travel wherever it does."""
    report = yield
    records = finished(item) if call.when == "call" else []
    if records:
        from pytest_gpuperf.report import section_text

        # An attribute of plain types crosses from a worker to the controller with the report.
        vars(report)["gpuperf_records"] = records
        vars(report)["gpuperf_observations"] = observations(item)
        text = "\n".join(section_text(record) for record in records)
        report.sections = [*without_profiler_noise(report.sections), ("gpuperf", text)]
    return report
