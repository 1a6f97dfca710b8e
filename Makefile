# OpsGuard. `make demo` and `make test` set everything up by themselves: Python 3.11 or newer and make are all they need.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# The environment is made anew when the lock changes, and when an installation was cut off half way.
READY   = $(VENV)/ready-$(shell cksum < requirements.lock | cut -d' ' -f1)
WORKERS ?= 2

.PHONY: help setup demo dev test fast lint bench mutate lock clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / - /; s/^/  make /'

setup: $(READY)  ## the environment, from requirements.lock (hashes checked)

$(READY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "OpsGuard needs Python 3.11 or newer: make PYTHON=/path/to/python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python has no venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	@rm -rf $(VENV)
	@echo "Setting up $(VENV) (a minute or two, the first time only) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup  ## one bad night on real servers of this machine: found, approved, repaired, proven
	@$(BIN)/opsguard demo

dev: setup  ## sandbox, Dagster's UI and daemon on 127.0.0.1:3000, one incident waiting
	@$(BIN)/opsguard dev

test: setup  ## every test; what this machine lacks is skipped and said at the end
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

fast: setup  ## the subset that needs no server, under a minute
	@$(BIN)/python -m pytest -m fast -q $(ARGS)

cover: setup  ## branch coverage of the rules: 100 %
	@$(BIN)/python -m pytest -m fast -q --cov --cov-report=term-missing tests/unit

lint: setup  ## format, lint, types, one-way imports
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: setup  ## paired measurements against peers on this machine, as ratios
	@$(BIN)/python -m bench.spool $(ARGS); spool=$$?; $(BIN)/python -m bench.delivery $(ARGS) && exit $$spool

mutate: setup  ## mutation check of the gate, the judge and the state machine of the ledger
	@$(BIN)/mutmut run $(ARGS); $(BIN)/mutmut results

lock:  ## requirements.lock from pyproject.toml (needs uv)
	uv pip compile --quiet --no-header --generate-hashes --universal --python-version 3.11 --no-strip-extras \
	  --extra sandbox --extra test pyproject.toml -o requirements.lock

clean:  ## the environment and caches go, the sandbox stops; .opsguard (ledger, receipts, plans) stays
	@if [ -x $(BIN)/opsguard ]; then $(BIN)/opsguard sandbox down || true; fi
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis mutants build *.egg-info
	@if [ -d .opsguard ]; then echo "Kept: .opsguard, which holds the ledger, receipts and plans. To lose them too: rm -r .opsguard"; fi
