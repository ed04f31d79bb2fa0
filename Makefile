# Everything from nothing: needs git, make, python3 (>= 3.11), cargo and a C compiler; all else goes into .venv.
# The two commands for a reader of the README: `make demo` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUST_SOURCES   := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock
PYTHON_FOLDERS := python tests tools benchmarks examples notebooks

# cargo builds kinema-python against the interpreter that runs the tests
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
# what is installed already is not worth a line
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# uv does in 10 s of CPU what takes pip 65. It reads its own settings, not pip's: an index of yours is UV_DEFAULT_INDEX.
UV_INSTALL := $(VENV)/bin/uv --quiet pip install --python
export UV_HTTP_TIMEOUT ?= 180

# a command with the seconds it takes, for the end of `.ci/run`
TIMED := tools/timed.sh

.DEFAULT_GOAL := help
.PHONY: attack book bytecode fuzz fuzz-long golden-fortran help mutants setup demo demo-follow test test-fast test-long test-rust built-rust-tests test-python test-hdf5-mpi test-ml lint lint-rust lint-types lint-python format bench same-bits coverage test-oldest docs release wheel sdist clean

help: ## what there is to make
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | awk -F'\t' '{printf "make %-15s %s\n", $$1, $$2}'

setup: $(VENV)/.stamp-release ## virtual environment, dependencies and a release build of the Rust core, in .venv

# Each stamp is made when its step has succeeded, so that a step is done once and again only when its inputs change.
$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is older than 3.11; name another with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.stamp-uv: $(VENV)/.stamp-venv
	$(BIN)/python -m pip install uv
	touch $@

$(VENV)/.stamp-packages: $(VENV)/.stamp-uv pyproject.toml tools/requirements.py
	$(BIN)/python tools/requirements.py test dev > $(VENV)/requirements.txt
	$(TIMED) environment $(UV_INSTALL) $(BIN)/python --requirement $(VENV)/requirements.txt
	touch $@

$(VENV)/.stamp-wheel: $(VENV)/.stamp-uv pyproject.toml tools/requirements.py
	$(BIN)/python tools/requirements.py wheel > $(VENV)/requirements-wheel.txt
	$(UV_INSTALL) $(BIN)/python --requirement $(VENV)/requirements-wheel.txt
	touch $@

# Two builds of the extension: `release` for users and benchmarks, `checked` for tests, which shares its objects with the
# Rust tests. Both are installed in one place, so that each stamp takes away the other's.
$(VENV)/.stamp-release: $(VENV)/.stamp-packages $(RUST_SOURCES)
	rm -f $(VENV)/.stamp-checked
	$(TIMED) "release build of the extension" $(BIN)/maturin develop --release --quiet
	touch $@

$(VENV)/.stamp-checked: $(VENV)/.stamp-packages $(RUST_SOURCES)
	rm -f $(VENV)/.stamp-release
	$(TIMED) "checked build of the extension" $(BIN)/maturin develop --profile checked --quiet
	touch $@

demo: setup ## the papers' benchmark on this machine: MDAnalysis, Kinema, the hardware's limit
	$(BIN)/kinema demo

demo-follow: setup ## a simulation runs, an analysis follows it, and its picture grows
	$(BIN)/kinema demo --follow --force

# Two things at a time: packages are installed while the Rust tests are built, and these run while the extension is built.
test: ## all tests, Rust and Python
	$(MAKE) --jobs 2 $(VENV)/.stamp-packages built-rust-tests
	$(MAKE) --jobs 2 test-rust $(VENV)/.stamp-checked
	$(MAKE) test-python

CARGO_TEST := cargo test --workspace --profile checked --quiet
built-rust-tests: $(VENV)/.stamp-venv
	$(TIMED) "build of the Rust tests" $(CARGO_TEST) --tests --no-run

# The ignored ones are those that need the data files of the installed package MDAnalysisTests. Clippy compiles the examples.
test-rust: $(VENV)/.stamp-packages
	MDANALYSIS_TESTS_DATA=$$($(BIN)/python tools/test_data_folder.py) $(TIMED) "Rust tests" $(CARGO_TEST) --tests -- --include-ignored
	$(TIMED) "Rust code of documents" $(CARGO_TEST) --doc -- --include-ignored

# Two more than cores: tests of processes, which wait, have two lanes of their own (kinema.testing.programs.lanes).
TEST_PROCESSES ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 2)')
PYTEST := $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadscope --durations 0 --durations-min 10
test-python: $(VENV)/.stamp-checked bytecode
	$(TIMED) "Python tests" $(PYTEST)

test-fast: $(VENV)/.stamp-checked bytecode ## Rust unit tests, and the tests in process of what changed since the branch main
	$(CARGO_TEST) --lib
	folders=$$($(PYTHON) tools/changed_tests.py) && \
		{ test -z "$$folders" || $(PYTEST) -m "not processes" $$folders; }

# A child process that compiles the package again, because nobody may store bytecode, takes twice as long to start.
unexport PYTHONDONTWRITEBYTECODE
bytecode: $(VENV)/.stamp-packages
	$(BIN)/python -m compileall -q -j 0 python/kinema
	$(BIN)/python tools/store_test_bytecode.py

# Kills at random moments: the number of each kind, instead of 4; the tests' limits of time are for this number.
KILLS ?= 200
test-long: same-bits bytecode ## Python tests on the release build, 200 kills of each kind, a tenth of `make attack`, docs, a release on trial; KILLS=1000
	KINEMA_TEST_KILLS=$(KILLS) $(PYTEST) -o timeout=3600
	PYTHONPATH=python:tools $(BIN)/python -m attack --share 0.1
	$(MAKE) docs
	$(MAKE) release DRY=1

# the release build comes last and stays
same-bits: ## values and files of the tests' build and of the release build, compared to the bit
	$(MAKE) $(VENV)/.stamp-checked
	$(BIN)/python -W ignore tools/value_digests.py > $(VENV)/digests-checked
	$(MAKE) $(VENV)/.stamp-release
	$(BIN)/python -W ignore tools/value_digests.py > $(VENV)/digests-release
	cmp $(VENV)/digests-checked $(VENV)/digests-release

# Kills, full disks, injected faults (they need strace), stopped workers, forged indices, odd cells, wrong command lines;
# it prints a seed for whatever is broken, by which that is tried again: ATTACK='--only "forged indices" --seed 7 --trials 1'
attack: setup ## attacks with random seeds on what docs/trust.md promises, at most 20 minutes; ATTACK="--share 0.1"
	PYTHONPATH=python:tools $(BIN)/python -m attack $(ATTACK)

# Faults that are kept as patches in tests/mutants, one at a time, in a copy of the tree; those of Rust are built, each.
mutants: setup ## plant faults and see whether the tests catch them, some hours; MUTANTS="--only plan --jobs 2"
	PYTHONPATH=tools $(BIN)/python -m mutants $(MUTANTS)

# The extension has counters afterwards: the next build replaces it.
coverage: $(VENV)/.stamp-checked bytecode ## lines of Python and Rust that the tests run, an hour; COVERAGE=report
	rm -f $(VENV)/.stamp-release $(VENV)/.stamp-checked
	MDANALYSIS_TESTS_DATA=$$($(BIN)/python tools/test_data_folder.py) \
		$(BIN)/python tools/measure_coverage.py $(COVERAGE) -- -n $(TEST_PROCESSES) --dist loadscope

book: setup ## the publications' figures and tables, redone, in docs/figures.md; BOOK="--only 2021-fig"
	PYTHONPATH=tools $(BIN)/python -m book $(BOOK)

# An environment of its own, with Debian's Open MPI and an h5py that is built on its HDF5; the Rust half is that of .venv.
HDF5_MPI := .venv-hdf5-mpi
$(HDF5_MPI)/.stamp: tools/hdf5_mpi_environment.py tools/requirements.py pyproject.toml
	$(PYTHON) tools/hdf5_mpi_environment.py $(HDF5_MPI)
	touch $@

test-hdf5-mpi: setup $(HDF5_MPI)/.stamp ## HDF5 through MPI-IO, and the MPI runner with Open MPI (packages of Debian)
	PYTHONPATH=$(CURDIR)/python $(HDF5_MPI)/bin/python -m pytest tests/studies/parallel_hdf5 $(wildcard tests/runners/test_mpi*.py) \
		tests/writing/test_convert_mpi.py tests/formats/h5md/edit/test_edit_mpi.py tests/writing/parallel \
		tests/interop/test_mdanalysis_mpi.py

# An environment of its own, with torch; the Rust half is that of .venv.
ML := .venv-ml
$(ML)/.stamp: tools/ml_environment.py tools/torch_without_cuda.py tools/requirements.py pyproject.toml
	$(PYTHON) tools/ml_environment.py $(ML)
	touch $@

test-ml: setup $(ML)/.stamp ## data loaders of torch: workers, start methods, resuming, two ranks; DFTracer's programs on traces; own environment of 2 GB
	PYTHONPATH=$(CURDIR)/python $(ML)/bin/python -m pytest tests/ml tests/profile/traces/test_validators.py

# An environment of its own, with the oldest versions of the packages that users install; the Rust half is that of .venv.
OLDEST := .venv-oldest
$(OLDEST)/.stamp: $(VENV)/.stamp-uv pyproject.toml tools/requirements.py
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tools/requirements.py --oldest test dev > $(OLDEST)/requirements.txt
	$(UV_INSTALL) $(OLDEST)/bin/python --requirement $(OLDEST)/requirements.txt
	touch $@

test-oldest: $(VENV)/.stamp-checked $(OLDEST)/.stamp ## Python tests with the oldest dependencies that pyproject.toml allows
	PYTHONPATH=$(CURDIR)/python $(OLDEST)/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadscope

# An environment of its own; the Rust half is that of .venv.
DOCS := .venv-docs
$(DOCS)/.stamp: $(VENV)/.stamp-uv pyproject.toml tools/requirements.py
	$(PYTHON) -m venv $(DOCS)
	$(PYTHON) tools/requirements.py docs dask mpi-local > $(DOCS)/requirements.txt
	$(UV_INSTALL) $(DOCS)/bin/python --requirement $(DOCS)/requirements.txt
	touch $@

docs: setup $(DOCS)/.stamp ## the documentation site, in dist/site; a warning is an error, and nothing is fetched from elsewhere
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(CURDIR)/python $(DOCS)/bin/mkdocs build --strict --quiet
	$(DOCS)/bin/python tools/site/check_site.py dist/site

golden-fortran: ## golden values of formatted output, written again by gfortran
	$(PYTHON) crates/kinema-core/tests/data/make_fortran_golden.py

# Three parts at a time: mypy and the checks have one thread, and clippy waits for single crates.
lint: $(VENV)/.stamp-packages ## formatting, clippy, ruff, mypy, layers, circles, names, error messages, prose
	$(MAKE) --jobs 3 --output-sync=target lint-rust lint-types lint-python

lint-rust: $(VENV)/.stamp-packages
	cargo fmt --all --check
	$(TIMED) clippy cargo clippy --workspace --all-targets --profile checked --quiet -- -D warnings

lint-types: $(VENV)/.stamp-packages
	$(TIMED) mypy $(BIN)/mypy
	$(BIN)/mypy tests/formats/typed_calls.py

lint-python: $(VENV)/.stamp-packages
	$(BIN)/ruff check $(PYTHON_FOLDERS)
	$(BIN)/ruff format --check $(PYTHON_FOLDERS)
	$(BIN)/python tools/write_options.py --check
	$(BIN)/python tools/check_layers.py
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tools/check_package.py
	$(BIN)/python tools/third_party_licences.py --check
	$(BIN)/python tools/check_error_messages.py
	PYTHONPATH=python $(BIN)/python tools/check_docstrings.py
	$(BIN)/python tools/check_prose.py
	$(BIN)/python tools/check_test_imports.py
	$(BIN)/python tools/check_slow_tests.py

format: $(VENV)/.stamp-packages ## bring all code into its form
	cargo fmt --all
	$(BIN)/ruff check --fix $(PYTHON_FOLDERS)
	$(BIN)/ruff format $(PYTHON_FOLDERS)

# a peer that cannot be installed (no wheel, no network) is left out, which the benchmark says
$(VENV)/.stamp-bench: $(VENV)/.stamp-packages pyproject.toml tools/requirements.py
	$(BIN)/python tools/requirements.py test dev bench > $(VENV)/requirements-bench.txt
	$(UV_INSTALL) $(BIN)/python --requirement $(VENV)/requirements-bench.txt && touch $@ || \
		echo "warp-md cannot be installed: its rows are left out" >&2

bench: setup $(VENV)/.stamp-bench ## ratios against MDAnalysis, MDTraj, chemfiles, molly, cpptraj, warp-md; all runners; BENCH="--quick"
	$(BIN)/python benchmarks/run.py $(BENCH)

# Built for others; `make setup` builds for this machine alone. Both are tried in an empty environment, with packages
# from the index: one to three minutes each, and therefore no part of `make test`.
SECONDS ?= 60
fuzz: ## all fuzz targets in turn (needs a nightly toolchain): make fuzz SECONDS=60
	fuzz/run.sh $(SECONDS)

fuzz-long: setup ## an hour of CPU time of each fuzz target, and of the structure of HDF5 files (needs a nightly toolchain)
	nice -n 19 $(BIN)/python fuzz/hdf5_structure.py 3600
	nice -n 19 $(BIN)/python fuzz/small_files.py 600
	nice -n 19 fuzz/run.sh 3600

wheel: $(VENV)/.stamp-wheel ## a wheel for this platform (Linux: any since glibc 2.17), in dist/, and a trial of it
	$(BIN)/python tools/build_wheel.py
	$(BIN)/python tools/smoke_wheel.py dist/kinema-*.whl

release: setup ## check, collect the changelog, build wheel and sdist, set the tag; uploads nothing; DRY=1 changes nothing
	$(BIN)/python tools/release.py $(if $(DRY),--dry)

sdist: $(VENV)/.stamp-wheel ## the source distribution, in dist/, and a trial of it
	rm -f dist/kinema-*.tar.gz
	$(BIN)/maturin sdist --out dist
	$(BIN)/python tools/smoke_wheel.py dist/kinema-*.tar.gz

clean: ## remove what was built; the virtual environment and the demo's data stay
	cargo clean
	rm -rf dist benchmarks/molly/target .pytest_cache .mypy_cache .ruff_cache .hypothesis $(VENV)/.stamp-release $(VENV)/.stamp-checked
	find python -name '*.so' -delete
	find $(PYTHON_FOLDERS) -name __pycache__ -type d -prune -exec rm -rf {} +
