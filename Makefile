# Each target works on a fresh machine with git, make and Python ≥ 3.11.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test demo bench clean

test: .venv/dev.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadgroup

demo: .venv/demo.installed
	$(BIN)/python -m recency.demo

bench: .venv/bench.installed
	@for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

# Stamps are written last: what failed half-way is done again.
.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "recency needs Python 3.11 or newer: set PYTHON=/path/to/it"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@touch $@

# One stamp per extra, made anew when the requirements change.
.venv/%.installed: pyproject.toml .venv/created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build src/*.egg-info
