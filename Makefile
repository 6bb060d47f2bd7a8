# Each target makes its own virtual environment on a fresh machine and installs what it needs, once;
# a change of pyproject.toml installs again. PYTHON=/path/to/python chooses the interpreter.
# Continuous integration runs `.ci/run`; noxfile.py runs these targets under every supported Python.

VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
ARGS   ?=
NUMBA  ?=

.PHONY: help demo test test-numba bridges pymc bridged fuzz nightly lint format bench peers docs pages generate coverage values clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     fit the Lotka-Volterra model to the hare and lynx counts, write a plot"
	@echo "make test     run the tests              (ARGS='-k solve' is passed to pytest, JOBS=4 workers)"
	@echo "make test-numba NUMBA=0.62.1   a selection of them, with another release of Numba"
	@echo "make bridges  the tests and pages of JAX, PyTorch, numba-stats, rocket-fft, quantecon; make pymc of PyMC"
	@echo "make fuzz     compare the gradients of 6,800 random programs with finite differences (FUZZ=n)"
	@echo "make nightly  that, and every program of the tests in both modes, by each argument, after more passes"
	@echo "make lint     ruff (rules and format) and pyright"
	@echo "make format   let ruff sort imports and format"
	@echo "make bench    measure gradient / primal ratios, write benchmarks/results.json and docs/performance.md"
	@echo "make peers    time programs of GradBench beside JAX and PyTorch, write their table and figure in docs/"
	@echo "make docs     run the examples, build the documentation into build/docs; warnings are errors"
	@echo "make pages    read the documentation as that does, without running or writing it: seconds"
	@echo "make generate rewrite the generated pages (docs/errors.md, design.md, all_rules.md, numba_private.md)"
	@echo "make coverage run a program per feature of Numba, write docs/coverage.md (an hour; ARGS='np.sort')"
	@echo "make values   run a program per kind of value and operation, write docs/values.md (ARGS='list')"
	@echo "make clean    remove the virtual environment and build products"

$(BIN)/python:
	python="$(PYTHON)"; "$${python:-$$(.ci/find-python)}" -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]' $(if $(NUMBA),'numba==$(NUMBA)')
	touch $@

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/lotka_volterra.py $(ARGS)

# worksteal: tests that stand together run in one process, and share what they compile.
test: $(VENV)/.installed-tests
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

# What differs between releases shows here first; noxfile.py runs all tests with each.
test-numba:
	$(MAKE) test NUMBA=$(or $(NUMBA),0.62.*) VENV=.venv-numba-$(subst *,x,$(or $(NUMBA),0.62.*)) \
	  ARGS="$(or $(ARGS),tests/numba_ext/codegen tests/numba_ext/substitutes tests/programs/test_library.py tests/numba_ext/rules/test_stored.py)"

# Each in an environment of its own, as PyTensor allows older releases of Numba only. A package that
# cannot be imported is an error here; in `make test` its tests are skipped.
bridges:
	$(MAKE) bridged VENV=.venv-bridges EXTRA=bridges \
	  IMPORTED="jax, torch, numba_stats._special, rocket_fft, quantecon.optimize, interpolation.splines" \
	  TESTED="interop or jax or torch or numba_packages"

pymc:
	$(MAKE) bridged VENV=.venv-pymc EXTRA=pymc IMPORTED="pytensor, pymc" TESTED="pytensor or pymc"

bridged: $(VENV)/.installed-$(EXTRA)
	$(BIN)/python -c "import $(IMPORTED)"
	$(BIN)/python -m pytest tests/interop tests/test_docs.py tests/test_docstrings.py -k "$(TESTED)" $(ARGS)

fuzz: $(VENV)/.installed-tests
	MALLOC_PERTURB_=165 FUZZ_PROGRAMS=$(or $(FUZZ),2000) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/fuzz $(ARGS)

nightly: fuzz
	MALLOC_PERTURB_=165 ALL_PROGRAMS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/programs tests/rules/library tests/test_peers.py $(ARGS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.run --output benchmarks/results.json $(ARGS)
	$(BIN)/python -m benchmarks.rule_calls --results benchmarks/results.json
	$(BIN)/python -m benchmarks.long_function --results benchmarks/results.json
	$(BIN)/python -m benchmarks.compile_arrays --results benchmarks/results.json
	$(BIN)/python -m benchmarks.vector_functions --results benchmarks/results.json
	$(BIN)/python -m benchmarks.linear_algebra --results benchmarks/results.json
	$(BIN)/python -m benchmarks.higher_order --results benchmarks/results.json
	$(BIN)/python -m benchmarks.small_jacobians --results benchmarks/results.json
	$(BIN)/python -m benchmarks.parallel_loops --results benchmarks/results.json
	$(BIN)/python -m benchmarks.speed_table benchmarks/results.json docs/performance.md docs/howto/fast_gradients.md docs/howto/parallel.md

peers: $(VENV)/.installed-peers
	$(BIN)/python -m benchmarks.peers.measure $(ARGS)

# Blocks of the pages and of docstrings are run first; the build itself runs the gallery.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m pytest -q tests/test_docs.py tests/test_docstrings.py -k 'blocks or docstrings'
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs build/docs
	@echo "The documentation is at file://$(CURDIR)/build/docs/index.html"

# The pages and the reference without running anything: links, references, tables of contents. It takes seconds.
pages: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -n -q -b dummy -D plot_gallery=0 docs build/pages

generate: $(VENV)/.installed-tests
	$(BIN)/python docs/generate_errors.py
	$(BIN)/python docs/generate_design.py
	$(BIN)/python docs/generate_rules.py
	$(BIN)/python docs/generate_numba_private.py

coverage: $(VENV)/.installed-tests
	$(BIN)/python docs/generate_coverage.py $(ARGS)

values: $(VENV)/.installed-tests
	$(BIN)/python docs/generate_values.py $(ARGS)

clean:
	rm -rf $(VENV) build dist docs/gallery docs/reference/generated .pytest_cache .ruff_cache .hypothesis
