# make demo | make test: each does all its own set-up on a machine with Python >= 3.10 and nothing else.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
SPARK := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mpc_spearman/pyspark-4.3.0

.PHONY: demo test test-all notebooks benchmarks check install clean

demo: install
	$(BIN)/mpc-spearman local configs/mpc.yaml --out runs/demo

# Three, as some tests wait: on two processors they end sooner than with two.
test: check
	$(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder -m 'not long'

test-all: check
	@$(MAKE) --quiet $(SPARK) || echo 'No Spark: its tests are skipped.'
	$(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder

# For tests/data/test_spark.py alone: 500 MB, in a folder that other clones share.
$(SPARK): | install
	rm -rf $@.part
	$(BIN)/python -m pip install --quiet --no-deps --target $@.part pyspark==4.3.0 py4j==0.10.9.9 \
		grpcio grpcio-status googleapis-common-protos protobuf zstandard
	mv $@.part $@

# Executes them again, in place; some minutes, and quiet ones: what they show is measured.
notebooks: install
	$(BIN)/python notebooks/execute.py

# Measures the tables of docs/costs.md again, in place; an hour, and a quiet one, with 16 GB.
benchmarks: install
	for name in large estimate levels proofs; do \
		$(BIN)/python benchmarks/$$name.py --write || exit 1; done

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

install: $(INSTALLED)

# CrypTen comes last and alone: its metadata asks pip for a package that no longer exists (see setup.cfg).
$(INSTALLED): setup.cfg pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps crypten==0.4.1
	@touch $(INSTALLED)

clean:
	rm -rf .venv runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
