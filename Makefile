# hookrow's development tasks: `make help` lists them. Each task creates the environments it needs.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
DEMO := .venv-demo/ready
DEMO_EXTRAS := serve,dashboard
PORTABLE := .venv-portable/ready
OLDEST := .venv-oldest/ready
NEWEST := .venv-newest/ready
DOCS := .venv-docs/ready
RELEASE := .venv-release/ready
MUTANTS := .venv/mutants
COMPILED := .venv/compiled
PYTEST := $(BIN)/pytest

# The versions of all packages for development, except in .venv-oldest and .venv-newest.
LOCK := requirements/dev.txt
GROUPS := compiled dev docs mutants portable release

# If it is set, each process of the tests compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

# Each worker runs whole files, in the order of collection.
WORKERS := --numprocesses 2 --dist loadfile --no-loadscope-reorder

# SQLite syncs every commit, so temporary files are kept in memory if 4 GB are free.
MEMORY := $(shell findmnt --noheadings --bytes --output AVAIL,OPTIONS /dev/shm 2>/dev/null \
	| awk '$$1 > 4e9 && !/noexec|nodev/ { print "/dev/shm"; exit }')
ifneq ($(MEMORY),)
test test-all acceptance test-clusters test-galera test-oldest test-newest: export TMPDIR := $(MEMORY)
endif

# The test files or directories for test-oldest and test-newest.
TESTS ?= tests/unit tests/stores tests/hosts tests/django tests/cli

# They prove SQL, rules, and what is recorded, which do not depend on the versions of the
# dependencies. The stores' contract and the other files open and verify each kind of database with
# these versions; the contract of hosts, Django, and the start of each command run on them, too.
SAME := \
	$(patsubst %,--ignore tests/stores/test_%.py,all_faults cases clocks combinations \
		concurrency from_code golden_statements host_columns host_tables hours keys law \
		locked_rows mapping_record mariadb_columns message_id_columns near_misses outbox \
		own_rows partial_events partitions reason_columns resumed_upgrades row_search \
		statements status_facts stored_values suppression_indexes sweep tenants unchanged \
		upgrades verification) \
	$(patsubst %,--ignore tests/hosts/test_%.py,budgets host_bad_input host_entries \
		host_providers) \
	$(patsubst %,--ignore tests/cli/test_%.py,check check_url cli_entries cli_faults \
		cli_follow cli_log cli_mapping cli_own_provider cli_simulate cli_stats)

# They do not depend on the versions either, but on Python's.
SAME_IN_PYTHON := $(patsubst %,--ignore tests/unit/test_%.py,acknowledge batch changes clock \
	corrections credentials drain entries erasure failures faults forms health hooks \
	host_selection hourly http imports inherited keywords locked log_conflicts log_operations \
	manual message_ids observer optional options periodic_task private_file receiver recorder \
	replay rerun results retry rules schema sizes spellings spool spool_file statistics \
	status_rules)

# The newest working Python on PATH or in pyenv, whose root may depend on HOME. The newest Django
# requires 3.12 or later.
NEWER ?= $(firstword $(shell for minor in 14 13 12; do \
	for python in python3.$$minor \
			"$$(pyenv root 2>/dev/null)"/versions/3.$$minor.*/bin/python \
			"$$(dirname "$$(command -v pyenv)")"/../versions/3.$$minor.*/bin/python; do \
		"$$python" -c 'import sys; print(sys.executable)' 2>/dev/null; \
	done; done) $(PYTHON))

# $(call install,python,directory,arguments of pip): create an environment. pip shows its progress,
# and in a log the versions that it has installed. Python 3.11 contains a pip without --group.
# Without the package python3-venv, Debian's python3 lacks ensurepip: use the system's pip instead.
define install
	@$(1) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hookrow needs Python 3.11 or later: make PYTHON=...")'
	@if $(1) -c 'import ensurepip' 2>/dev/null; then \
		$(1) -m venv --clear $(2) && pip="$(2)/bin/python -m pip"; \
	elif $(1) -c 'import pip' 2>/dev/null; then \
		$(1) -m venv --clear --without-pip $(2) && pip="$(1) -m pip --python $(2)/bin/python"; \
	else \
		echo "$(1) has no pip. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	fi && $$pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' \
	&& $(2)/bin/python -m pip install --disable-pip-version-check $(3)
endef

.PHONY: help setup demo test test-all measured acceptance test-clusters test-galera environments \
	erase report test-oldest test-newest test-portable check style types keywords format mutants \
	bench compiled docs dist image lock clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-13s %s\n", $$1, $$2}'

setup: $(READY) ## Create .venv with everything needed for development

$(READY): pyproject.toml $(LOCK)
	@echo "Installing everything for development in .venv: 1 GB, in two minutes ..."
	$(call install,$(PYTHON),.venv,--constraint $(LOCK) --editable '.[all]' --group dev)
	@touch $@

demo: $(DEMO) ## Show notifications becoming rows
	@.venv-demo/bin/hookrow demo

$(DEMO): pyproject.toml
	@echo "Installing the demo in .venv-demo: 50 MB, in half a minute ..."
	$(call install,$(PYTHON),.venv-demo,--editable '.[$(DEMO_EXTRAS)]')
	@touch $@
	@echo

# Without a MariaDB server, its tests are skipped, and the first lines of the output say so.
test: $(READY) ## Run all tests except those with real servers, in about 5 minutes
	@echo "About 5 minutes; \`make test-all\` runs everything."
	@$(PYTEST) $(WORKERS) --ignore tests/acceptance --ignore tests/clusters

# The acceptance tests are last, so that the list of flaky ones is at the end of what is printed.
test-all: measured test-oldest test-newest test-clusters acceptance ## Run everything, and measure coverage

# Acceptance tests run in processes what other tests cover, so they are not measured.
measured: PYTEST := $(BIN)/coverage run -m pytest
measured: erase test report

acceptance: $(READY) ## Run the tests with real servers, a browser and containers: kills, outages, floods
	@$(BIN)/python tests/rerun.py $(WORKERS) tests/acceptance

# One after the other, because the nodes of a cluster and the receivers need all cores.
test-clusters: $(READY) ## Run the tests with Galera, and with PostgreSQL's standbys: servers that fail under load
	@$(PYTEST) -rP tests/clusters

# The one of these tests that .ci/run runs, because all take eight minutes. A promoted standby is among
# the acceptance tests.
test-galera: $(READY)
	@$(PYTEST) -rP tests/clusters/test_galera.py::test_a_node_is_killed

# Creates all environments, in parallel with `make --jobs`.
environments: $(READY) $(OLDEST) $(NEWEST) $(DOCS)

erase: $(READY)
	@$(BIN)/coverage erase

report: $(READY)
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='$(CORE)'

test-oldest: $(OLDEST) ## Run tests on the lowest version of each dependency that pyproject.toml allows
	.venv-oldest/bin/pytest $(WORKERS) $(SAME) $(SAME_IN_PYTHON) $(TESTS)

# Only wheels are installed, so that a version without a wheel fails here.
$(OLDEST): pyproject.toml
	$(PYTHON) tests/requirements.py >.venv-oldest.txt
	$(call install,$(PYTHON),.venv-oldest,--only-binary :all: --constraint .venv-oldest.txt --editable '.[all]' --group dev)
	@mv .venv-oldest.txt $@

test-newest: $(NEWEST) ## Run tests on the newest version of each dependency and the newest Python found
	.venv-newest/bin/pytest $(WORKERS) $(SAME) $(TESTS)

$(NEWEST): pyproject.toml
	$(call install,$(NEWER),.venv-newest,--editable '.[all]' --group dev)
	@touch $@

CORE := src/hookrow/_core/changes.py,src/hookrow/_core/log_entry.py,src/hookrow/_core/notification.py,src/hookrow/_core/optional.py,src/hookrow/_core/rules.py,src/hookrow/providers/_postmark_payloads.py,src/hookrow/providers/postmark.py,src/hookrow/_http.py,src/hookrow/_core/schema.py,src/hookrow/_core/schema_values.py,src/hookrow/errors.py

# On Windows, which has no make, .github/workflows/ci.yml runs the same two commands.
test-portable: $(PORTABLE) ## Run the tests that also pass on Windows and macOS: all imports, and SQLite
	.venv-portable/bin/python -m pytest --noconftest tests/portable

$(PORTABLE): pyproject.toml $(LOCK)
	$(call install,$(PYTHON),.venv-portable,--constraint $(LOCK) --editable '.[all]' --group portable)
	@touch $@

check: style types keywords ## Check format, style and types

style: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

keywords: $(READY)
	@# pyright takes the environment of the first python in PATH; --verifytypes knows no other way.
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright --verifytypes hookrow --ignoreexternal

format: $(READY) ## Format the code, and fix style errors automatically where possible
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Compare hookrow with common alternatives, in three minutes
	$(BIN)/python bench/compare.py

mutants: $(MUTANTS) ## Measure how many faults in the core the tests detect, in at most 40 minutes
	$(BIN)/python tests/mutants.py

# Needs a compiler, pkg-config and the header files of MariaDB's or MySQL's client library.
compiled: $(COMPILED) ## Install the drivers that are compiled, without which some tests are skipped

# Each of these files is named after its group.
$(MUTANTS) $(COMPILED): $(READY)
	@echo "Installing the packages of the group $(@F) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK) --group $(@F)
	@touch $@

docs: $(DOCS) ## Build the documentation site in site/
	@.venv-docs/bin/zensical build --clean --strict
	@echo "Open site/index.html, or serve it, search included: $(PYTHON) -m http.server -d site"

$(DOCS): pyproject.toml $(LOCK)
	$(call install,$(PYTHON),.venv-docs,--constraint $(LOCK) --editable . --group docs)
	@touch $@

dist: $(RELEASE) ## Build the sdist and the wheel in dist/, and check their metadata
	@rm -rf dist
	.venv-release/bin/uv build --python .venv-release/bin/python
	.venv-release/bin/twine check --strict dist/*

IMAGE ?= hookrow

image: ## Build the container image that deploy/Containerfile describes
	podman build --format docker --file deploy/Containerfile --tag $(IMAGE) .

lock: $(RELEASE) ## Write the newest versions of all packages for development to requirements/dev.txt
	@{ echo "# The versions of all packages for development, on every Python and system: see CONTRIBUTING.md." \
	&& .venv-release/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
		--all-extras $(addprefix --group ,$(GROUPS)) pyproject.toml; } >$(LOCK).new
	@mv $(LOCK).new $(LOCK)
	@git diff --stat $(LOCK)

$(RELEASE): pyproject.toml
	$(call install,$(PYTHON),.venv-release,--constraint $(LOCK) --group release)
	@touch $@

clean: ## Remove all environments, caches and build results
	rm -rf .venv .venv-* .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* dist site
