# hookrow: `make demo` shows it, `make test` proves it. Both set up .venv by themselves.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
PEERS := .venv/peers

# In the order of the files, those that wait most come early, and quick ones at the end.
WORKERS := --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Tests sync what they write to SQLite: in memory, where there is enough, nothing waits for a disk.
MEMORY := $(shell findmnt --noheadings --bytes --output AVAIL,OPTIONS /dev/shm 2>/dev/null \
	| awk '$$1 > 4e9 && !/noexec|nodev/ { print "/dev/shm"; exit }')
ifneq ($(MEMORY),)
test test-slow test-browser test-newer: export TMPDIR := $(MEMORY)
endif

# The newest of these that runs; it has a newer Django, too.
NEWER ?= $(firstword $(foreach minor,14 13 12,$(shell python3.$(minor) -c 'import sys; print(sys.executable)' 2>/dev/null)))

.PHONY: help setup demo test test-slow test-browser test-newer check format bench bench-full clean

help: ## Show what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## Make .venv with all that development needs

# Debian's python3 has no ensurepip without python3-venv: there pip comes from outside.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hookrow needs Python 3.11 or later: make PYTHON=...")'
	@echo "Setting up .venv, which takes a minute ..."
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
		$(PYTHON) -m venv --clear .venv && pip="$(BIN)/python -m pip"; \
	else \
		$(PYTHON) -m venv --clear --without-pip .venv && pip="$(PYTHON) -m pip --python $(BIN)/python"; \
	fi && $$pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY) ## Show notifications becoming rows
	@$(BIN)/hookrow demo

test: $(READY) ## Run all tests, and measure what they cover
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m 'not slow and not browser' $(WORKERS)
	@$(BIN)/coverage combine --quiet
	@rm -f .coverage.*  # of processes that were killed while they wrote it
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='$(CORE)'

test-slow: $(READY) ## Run the tests that take long: kills, outages, floods
	$(BIN)/pytest -m slow $(WORKERS)

test-browser: $(READY) ## Run the tests that drive a browser, Debian's chromium
	$(BIN)/pytest -m browser --numprocesses 2

test-newer: ## Run the tests of Django on a newer Python, which has Django 6, where one is found
ifeq ($(NEWER),)
	@echo "There is no newer Python than 3.11 here: make test-newer NEWER=..."
else
	$(NEWER) -m venv --clear .venv-newer
	.venv-newer/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv-newer/bin/pytest $(WORKERS) -m 'not slow and not browser' $(DJANGO)
endif

DJANGO := tests/django tests/stores/test_django_store.py tests/hosts/test_django_project.py tests/hosts/test_django_page.py

CORE := src/hookrow/entry.py,src/hookrow/notification.py,src/hookrow/decide.py,src/hookrow/postmark.py,src/hookrow/http.py,src/hookrow/schema.py,src/hookrow/errors.py

check: $(READY) ## Look at format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## Format, and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(PEERS) ## Compare with what one would write instead, in three minutes
	$(BIN)/python bench/compare.py

bench-full: $(PEERS) ## Compare all, measure growth and every part, write docs/performance.md and scale.md
	@failed=; for each in "compare.py --full" scale.py run.py observing.py; do \
		$(BIN)/python bench/$$each || failed="$$failed $$each"; \
	done; test -z "$$failed" || { echo "Failed:$$failed" >&2; exit 1; }

$(PEERS): $(READY)
	@echo "Installing the packages of the extra bench ..."
	@if test -x $(BIN)/pip; then pip="$(BIN)/python -m pip"; else pip="$(PYTHON) -m pip --python $(BIN)/python"; fi \
	&& $$pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

clean: ## Remove what was made
	rm -rf .venv .venv-newer .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* dist
