# Each target works on a fresh machine with git, make, Python ≥ 3.11, and Java ≥ 17 for Spark.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: check test lint test-spark40 cluster-test demo bench clean

# For every save: some two minutes on two cores.
check: lint
	$(BIN)/pytest -n 2 --a-tenth-of-laws tests/unit tests/golden tests/laws

# Everything, and all that CI runs; the longest tests are printed.
test: lint .venv/java.found
	$(BIN)/pytest -n 2 --dist loadgroup --durations 20

lint: .venv/dev.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What touches Spark, on the oldest version that is supported; that one leaves sockets to be closed
# by the garbage collector, which is not an error of the tests.
test-spark40: .venv/java.found .venv40/installed
	.venv40/bin/pytest tests/spark -n 2 --dist loadgroup \
	  -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

.venv40/installed: pyproject.toml
	$(PYTHON) -m venv --clear .venv40
	.venv40/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[dev]' 'pyspark[connect]==4.0.*'
	@touch $@

# Also one of the tests: a master, two workers, faults.
cluster-test: .venv/dev.installed .venv/java.found
	$(BIN)/python tests/spark/cluster.py

demo: .venv/demo.installed .venv/java.found
	$(BIN)/python examples/demo.py

bench: .venv/bench.installed .venv/java.found
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

# Spark needs Java ≥ 17. Where it is missing, and can be installed, it is.
JAVA_VERSION = $${JAVA_HOME:+$$JAVA_HOME/bin/}java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p'
.venv/java.found: .venv/created
	@found() { version=$$($(JAVA_VERSION)); [ "$${version:-0}" -ge 17 ]; }; \
	install() { apt-get --quiet update && apt-get --quiet --yes install openjdk-17-jre-headless; }; \
	found || { [ -z "$$JAVA_HOME" ] && install > /dev/null 2>&1; found; } \
	  || { echo "recency.spark needs Java 17 or newer: install it, or set JAVA_HOME"; exit 1; }
	@touch $@

clean:
	rm -rf .venv .venv40 .pytest_cache .mypy_cache .ruff_cache .hypothesis build src/*.egg-info
