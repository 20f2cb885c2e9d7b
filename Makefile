# Two commands do everything: `make demo` shows it, `make test` proves it.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
TORCH = torch==2.13.0
STAMP = $(VENV)/.installed

.PHONY: demo test lint bench clean

demo: $(STAMP)
	$(BIN)/python -m pytest example_project --gpuperf-report

test: $(STAMP)
	$(BIN)/python -m pytest tests -n 2 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
# The oldest Python. pandas' stubs want 3.11: there DataFrame(…) is Any, and so is what returns one.
	$(BIN)/mypy --python-version 3.10 --no-warn-return-any
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# One set-up for all targets; made again when what we depend on changes.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) .gpuperf .pytest_cache .mypy_cache .ruff_cache
