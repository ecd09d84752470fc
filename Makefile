# make demo   compile the example model, run it, show accuracy, time and IR
# make test   the whole test suite
# make check  ruff, mypy --strict, import-linter, then the tests
# make bench  our time against ONNX Runtime
# Each target creates .venv with what it needs; PYTHON picks the interpreter (3.11 or newer).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
RUNTIME_STAMP := $(VENV)/.stamp-demo
TEST_STAMP := $(VENV)/.stamp-test
CHECK_STAMP := $(VENV)/.stamp-check

.PHONY: demo test lint types check bench clean

demo: $(RUNTIME_STAMP)
	$(BIN)/python -m tilewright.examples.digits.demo

test: $(TEST_STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal test

lint: $(CHECK_STAMP)
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(CHECK_STAMP)
	$(BIN)/python -P tools/check_types.py

check: lint types test

bench: $(TEST_STAMP)
	$(BIN)/python bench/models.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(RUNTIME_STAMP): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[onnx]"
	touch $@

$(TEST_STAMP): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

$(CHECK_STAMP): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[test,check]"
	touch $@

clean:
	rm -rf $(VENV) build out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
