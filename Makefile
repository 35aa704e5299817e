# make demo   installs, then scores the shipped example and the baselines
# make test   installs everything that the tests need, then runs all of them
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HARNESS := $(BIN)/harness
DATA := tests/fixtures

.PHONY: setup demo test lint bench fuzz clean

setup: $(VENV)/.tests

# The light part: the harness itself and the tools to check it.
$(VENV)/.base: pyproject.toml requirements/cpu-py311.txt tools/install.py
	$(PYTHON) tools/install.py base $(VENV)
	touch $@

# The heavy part: what some tests start for real (vLLM on the CPU), where it can be had.
$(VENV)/.tests: $(VENV)/.base requirements/cpu-py311.txt tools/install.py tools/install_shim.py
	$(PYTHON) tools/install.py tests $(VENV)
	touch $@

demo: $(VENV)/.base
	$(BIN)/python tools/demo.py

lint: $(VENV)/.tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

fuzz: $(VENV)/.base
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest tests/unit tests/contract -m "not slow"

bench: $(VENV)/.base
	$(BIN)/python -m benchmarks.scoring
	$(BIN)/python -m benchmarks.judging

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
