.DEFAULT_GOAL := help
.PHONY: help setup java demo test spark-tests plain-tests bench experiments lint types lock mutants soak clean

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

setup: java $(INSTALLED) ## make .venv from the lock file; look for Java 17 or newer

demo: java $(RUNTIME) ## race a join against Spark's own, on this machine; installs only what that needs
	$(BIN)/watersmeet demo

test: lint types ## everything that must pass: lint, types, and the tests, those with Spark beside the others
	$(MAKE) --jobs=2 --output-sync=line --no-print-directory spark-tests plain-tests

spark-tests: setup
	$(BIN)/pytest -m spark

plain-tests: setup
	$(BIN)/pytest -m 'not spark'
	$(BIN)/python -O -m pytest -q -m 'not spark' tests/joins tests/state tests/segments tests/table

bench: setup ## measure against Spark's own joins, and plans against each other
	$(BIN)/python -m benchmarks.window_join
	$(BIN)/python -m benchmarks.window_plans
	$(BIN)/python -m benchmarks.metadata_join
	$(BIN)/python -m benchmarks.multiway_join
	$(BIN)/python -m benchmarks.ring_join
	$(BIN)/python -m benchmarks.enrich
	$(BIN)/python -m benchmarks.cold_start

experiments: setup ## run the papers' experiments again (40 minutes)
	$(BIN)/pip install --quiet 'pip>=25.1'
	$(BIN)/pip install --quiet --group experiments
	$(BIN)/python -m experiments.window
	$(BIN)/python -m experiments.metadata
	$(BIN)/python -m experiments.multiway
	$(BIN)/python -m experiments.ring
	$(BIN)/python -m experiments.ring.workers
	$(BIN)/python -m experiments.semi_stream

soak: setup ## random joins under kills and other faults, MINUTES=10 of them, compared with the oracle
	$(BIN)/python -m soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

lint: setup ## ruff's rules and format, and which module may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: setup ## mypy, strict
	$(BIN)/mypy

mutants: setup ## do the tests notice small faults? (an hour)
	$(BIN)/pip install --quiet 'cosmic-ray>=8.7,<9'
	$(BIN)/python scripts/mutants.py

# Pins that still fit are kept; `make lock UPGRADE=--upgrade` takes the newest versions.
lock: $(BIN)/python ## write requirements.lock anew from pyproject.toml
	$(BIN)/pip install --quiet 'uv>=0.9,<1'
	$(BIN)/uv pip compile pyproject.toml --group dev $(UPGRADE) \
		--universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
		--quiet --output-file requirements.lock

clean: ## remove caches and outputs (.venv stays)
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf build dist demo-output bench-output experiment-output spark-warehouse metastore_db derby.log
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

java:
	@scripts/ensure_java.sh

$(INSTALLED): requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	@touch $@ $(RUNTIME)

# Watersmeet and what it imports, in the versions of the lock file: no linters, no tests.
$(RUNTIME): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing Watersmeet, PySpark and what they need into $(VENV): about 1 GB ..."
	@sed -n 's/^\([A-Za-z0-9._-]*==[^ ;]*\)\( *;[^\\]*\)\{0,1\} *\\*$$/\1\2/p' requirements.lock > $(VENV)/versions.txt
	$(BIN)/pip install --constraint $(VENV)/versions.txt --editable .
	@touch $@

$(BIN)/python:
	@for python in python3 python3.13 python3.12 python3.11; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "$$python -m venv $(VENV)"; \
			exec $$python -m venv $(VENV); \
		fi; \
	done; \
	echo "Watersmeet needs Python 3.11 or newer: install it and run make again." >&2; \
	exit 1
