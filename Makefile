# Everything that this project needs, from a fresh clone: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
BIN := $(VENV)/bin

# Whoever wants no compiled files would have every process of the tests compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check lint bench bench-full clean

demo: $(VENV)/.installed
	$(BIN)/python -m demo

test: lint $(OLDEST)/.installed
	$(BIN)/python -m pytest --numprocesses 4 --dist loadscope --no-loadscope-reorder $(ARGS)

# 15 to 20 minutes on 2 cores, if nothing else runs there; writes docs/performance.md.
bench: $(VENV)/.installed
	$(BIN)/python -m bench --all --write $(ARGS)

# Some hours.
bench-full: $(VENV)/.installed
	$(BIN)/python -m bench --all --write --size full $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 10) else "Python 3.10 or later is needed; say which with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The lower bounds of our dependencies, exactly: tests/smoke runs in there.
$(OLDEST)/.installed: $(VENV)/.installed pyproject.toml tests/lower_bounds.py tests/smoke/oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(BIN)/python tests/lower_bounds.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt --editable . --requirement tests/smoke/oldest.txt
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) .demo .bench .pytest_cache .ruff_cache .hypothesis dist
