# Needs Python 3.11 or newer and make; everything else goes into .venv, once.

VENV ?= .venv
RUN := $(VENV)/bin
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
USABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
# The tests start many processes, which then need not compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs site notebooks outputs packaging audit bench faults soak clean

help: ## list the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

demo: $(VENV)/.runs ## index the documentation of Python's standard library and search it
	@$(RUN)/hybridgraph demo

test: $(VENV)/.develops ## run the tests and the examples in the docstrings (ARGS= go to pytest)
	$(RUN)/python -m pytest -n 2 --dist worksteal -m "not (faults or notebooks or packaging or sets)" \
		--doctest-modules langchain_hybridgraph tests $(ARGS)

lint: $(VENV)/.develops ## check style and types
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

docs: $(VENV)/.develops ## write the generated tables, and check the documentation and the examples in the docstrings
	$(RUN)/python docs/feature_table.py
	$(RUN)/python docs/option_tables.py
	$(RUN)/python -m pytest --doctest-modules langchain_hybridgraph tests/test_docs.py tests/test_architecture.py $(ARGS)

notebooks: $(VENV)/.develops ## run the notebooks without a network
	$(RUN)/python -m pytest -m notebooks tests/test_notebooks.py $(ARGS)

outputs: $(VENV)/.develops ## run the notebooks and store their outputs
	$(RUN)/python notebooks/store_outputs.py $(ARGS)

packaging: $(VENV)/.develops ## build the package and test it without its extras
	$(RUN)/python -m pytest -m packaging tests/test_packaging.py $(ARGS)

audit: $(VENV)/.develops ## look for known vulnerabilities in the installed packages (skipped without a network)
	@if report=$$($(RUN)/python -m pip_audit --skip-editable --progress-spinner off 2>&1); then \
		echo "$$report" | sed -n 1p; \
		echo "$$(echo "$$report" | grep -c 'could not be audited') packages could not be audited"; \
	elif echo "$$report" | grep -qE "Could not connect|ConnectionError|Max retries exceeded|[Tt]imed out"; then \
		echo "skipped: the service with the advisories cannot be reached"; \
	else \
		echo "$$report"; exit 1; \
	fi

bench: $(VENV)/.develops ## run the benchmarks
	@for file in $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)); do \
		echo "== $$file"; $(RUN)/python $$file || exit; \
	done

faults: $(VENV)/.develops ## test with killed processes and full disks
	$(RUN)/python -m pytest -m faults tests $(ARGS)

soak: $(VENV)/.develops ## write to an index and search it for an hour (SECONDS=)
	$(RUN)/python -m tests.faults.soak $(SECONDS)

site: $(VENV)/.develops ## build the documentation site and check its links
	$(RUN)/python docs/build_site.py

clean: ## remove everything that make created
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The stamps are renewed when pyproject.toml changes; the package itself is installed editable.
$(VENV)/.runs: pyproject.toml | $(RUN)/pip
	@echo "installing langchain-hybridgraph into $(VENV), once; this takes a minute or two"
	@$(RUN)/python -m pip install --quiet --disable-pip-version-check -e ".[cli]"
	@touch $@

$(VENV)/.develops: pyproject.toml | $(RUN)/pip
	@echo "installing langchain-hybridgraph and the requirements of its tests into $(VENV), once; this takes a minute or two"
	@$(RUN)/python -m pip install --quiet --disable-pip-version-check -e ".[cli,dev]"
	@touch $(VENV)/.runs $@

$(RUN)/pip:
	@for python in $(PYTHONS); do \
		if $$python -c '$(USABLE)' 2>/dev/null; then exec $$python -m venv $(VENV); fi; \
	done; \
	echo "Python 3.11 or newer with its venv module is needed (on Debian and Ubuntu: apt install python3-venv)." >&2; \
	echo "Tried: $(PYTHONS). To use another one: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
	exit 1
