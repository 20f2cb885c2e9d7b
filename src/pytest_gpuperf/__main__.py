"""``python -m pytest_gpuperf``: the command ``gpuperf``, where its script is not on the path."""

from pytest_gpuperf.cli import main

raise SystemExit(main())
