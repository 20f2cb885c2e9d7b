"""``python -m pytest_gpuperf.cli``: the command where no script is installed."""

from pytest_gpuperf.cli import main

raise SystemExit(main())
