# Needs Python 3.11 or later and make. Another interpreter: make table PYTHON=python3.12
PYTHON ?= python3
JOBS ?= 2
# Of make hunt (ten minutes), make long (thirty) and make mutants: SEED comes from the clock by default.
# METHODS, of make hunt, are groups or methods, all by default.
SECONDS ?=
METHODS ?=
SOLVER ?= highs
SEED ?=
# Of make paper: PROFILE is smoke, quick, laptop, cluster or paper; PAPER one of mtpp, spp, placeto, all; a SCHEDULER of
# dask.distributed works in place of JOBS processes; REGAL is a folder of REGAL's test graphs.
PROFILE ?= laptop
PAPER ?= all
SCHEDULER ?=
REGAL ?=
# Of make docs: the folder of the site, and a file of verdicts, by default that of docs/site/conf.py.
SITE ?= build/site
VERDICTS ?=
# Of make wheel: more interpreters to try it with, as PYTHONS="python3.12 python3.13".
PYTHONS ?=
# Of make forgeries and make mutants: how many; and, of make mutants, FILE:LINE instead of faults that are drawn.
COUNT ?= 30
AT ?=
BIN := .venv/bin
# One process more than JOBS, as some tests wait.
PYTEST = $(BIN)/python -m pytest -q -n $$(($(JOBS) + 1)) --dist worksteal
# Tests start hundreds of processes; each would parse all sources.
unexport PYTHONDONTWRITEBYTECODE
PACKAGES := instances heuristics mtpp_models experiments mtpp

.PHONY: help table paper peers test long hunt forgeries mutants bench size check lint types contract warm notebooks golden docs networks runtimes release wheel format clean

help:
	@echo "make table      the ratio tables of the suite 'quick' (makes .venv first; resumes where it stopped)"
	@echo "make paper      numbers of three papers with verdicts; resumes: make paper PROFILE=quick (an hour on 2 cores)"
	@echo "make peers      this project beside solvers and searches of other packages, ten minutes"
	@echo "make test       the tests but the slow ones (makes .venv first)"
	@echo "make check      lint, types, import contract, the wheel, all tests, notebooks, the site"
	@echo "make long       tests that draw examples, with new and more of them: make long SECONDS=1800 SEED=7"
	@echo "make hunt       look for false bounds on new random questions: make hunt SECONDS=600 METHODS=bounds SOLVER=scip"
	@echo "make forgeries  change answer files at random, one change each, and see whether verify accepts any: make forgeries COUNT=100000"
	@echo "make mutants    plant small faults and see whether tests notice: make mutants SEED=7 COUNT=30"
	@echo "make bench      speed of the inner loops"
	@echo "make size       files, code lines and lines of imports of each package"
	@echo "make docs       the site, as build/site/index.html"
	@echo "make golden     write tests/pillars/golden*.json anew; look at the difference before you commit it"
	@echo "make networks   list the networks of timm, torchvision and transformers anew, for hours (extra networks); Ctrl-C is safe"
	@echo "make runtimes   install programs that take our words, and let their parsers judge (extra runtimes)"
	@echo "make wheel      dist/: the wheel with its machine code, which is tried, and the source distribution"
	@echo "make release    check that version, changelog, citation and tag agree"
	@echo "make format     format the code and sort the imports"
	@echo "make clean      remove .venv, caches and results"

table: .venv/table.stamp
	@mkdir -p results
	@$(BIN)/mtpp warm-up
	$(BIN)/mtpp table quick -k 2,4,8,32 --time-limit 1.5 --jobs $(JOBS) --out results/quick.jsonl --tables results/quick

paper: warm
	$(BIN)/mtpp paper $(PAPER) --profile $(PROFILE) --jobs $(JOBS) --out results/paper-$(PROFILE) \
		$(if $(SCHEDULER),--scheduler $(SCHEDULER)) $(if $(REGAL),--regal $(REGAL))

peers: warm
	$(BIN)/mtpp table peers --jobs $(JOBS) --out results/peers.jsonl --tables results/peers

test: warm
	$(PYTEST) -m "not slow and not notebooks"

# What it finds comes again with the same SEED; each find becomes an @example of its test.
long: SEED := $(or $(SEED),$(shell date +%s))
long: warm
	@echo "make long SEED=$(SEED)"
	$(PYTEST) -m "not notebooks" --hypothesis-profile long --hypothesis-seed $(SEED) --seconds $(or $(SECONDS),1800)

hunt: warm
	$(if $(METHODS),,$(BIN)/mtpp hunt all --seconds $(or $(SECONDS),600) --out results/hunt $(if $(SEED),--seed $(SEED)))
	$(BIN)/python tests/helpers/hunt.py --seconds $(or $(SECONDS),600) --methods "$(METHODS)" --solver $(SOLVER) --jobs $(JOBS) \
		$(if $(SEED),--seed $(SEED))

forgeries: warm
	$(BIN)/python tests/helpers/mass_mutation.py --count $(COUNT) $(if $(SEED),--seed $(SEED))

mutants: .venv/test.stamp
	$(BIN)/python tests/helpers/mutants.py --count $(COUNT) $(if $(SEED),--seed $(SEED)) $(if $(AT),--at $(AT))

bench: warm
	@mkdir -p results
	$(BIN)/python -m pytest -q tests/benchmarks --benchmark-only --benchmark-json results/bench.json
	@$(BIN)/python docs/site/speed.py results/bench.json

# All notebooks and the site are among the tests, so that the processors are busy to the end; so is the wheel beside types.
check: lint
	@$(MAKE) --no-print-directory -j $(JOBS) types contract wheel
	$(PYTEST) -m "notebooks or not notebooks" --durations 40
	@$(MAKE) --no-print-directory size

size: .venv/test.stamp
	@$(BIN)/python tests/helpers/size.py

warm: .venv/test.stamp
	@$(BIN)/mtpp warm-up

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 --exclude tests . # files are UTF-8 on all machines
	$(BIN)/ruff format --check .

types: .venv/test.stamp
	$(BIN)/mypy

contract: .venv/test.stamp
	$(BIN)/lint-imports

notebooks: warm
	$(PYTEST) -m notebooks tests/experiments/test_notebooks.py

docs: .venv/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -q -E -j $(JOBS) -b html -c docs/site $(if $(VERDICTS),-D verdicts_file=$(VERDICTS)) . $(SITE)
	@echo "The site is $(SITE)/index.html"

golden: .venv/test.stamp
	for FILE in tests/pillars/test_golden*.py; do PYTHONPATH=tests/helpers:. $(BIN)/python $$FILE || exit 1; done

networks: .venv/test.stamp
	@$(PIP) -e ".[networks]"
	$(BIN)/python tests/helpers/networks.py

runtimes: .venv/runtimes.stamp warm
	$(PYTEST) tests/runtimes

release:
	@$(PYTHON) tests/helpers/release.py

wheel: warm
	@$(PIP) "hatchling>=1.27"
	@$(BIN)/python tests/helpers/wheel.py $(PYTHONS)

format: .venv/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache .benchmarks .mutants build dist results
	find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. A stamp is newer than pyproject.toml when its packages are installed.
# Python compiles what it imports; pip would compile all, ten times as much.
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-compile

.venv/made.stamp:
	@$(PYTHON) -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { \
		echo "mtpp needs Python 3.11 or later with its venv module (Debian, Ubuntu: python3-venv);" \
		     "name one with: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear .venv
	@touch $@

# $(call install,what,extras): what is required, then the extras together; if that fails, one by one without those that fail.
define install
	@echo "Installing $(1) (a minute or two the first time)"
	@$(PIP) -e "$(1)"
	@echo "Installing the extras $(2)"
	@$(PIP) -e ".[$(subst $(space),$(comma),$(2))]" 2>.venv/pip.log || \
		for extra in $(2); do \
			$(PIP) -e ".[$$extra]" 2>>.venv/pip.log || \
				echo "Skipped the extra $$extra: it does not install here (see .venv/pip.log)" >&2; \
		done
	@touch $@
endef
comma := ,
space := $(subst x,,x x)

.venv/table.stamp: pyproject.toml | .venv/made.stamp
	$(call install,.,scip gurobi onnx)

.venv/test.stamp: pyproject.toml | .venv/made.stamp
	$(call install,.[dev],scip gurobi onnx torch learn place cluster notebooks docs)
	@touch .venv/table.stamp .venv/docs.stamp

.venv/docs.stamp: pyproject.toml | .venv/made.stamp
	$(call install,.[docs],onnx)

# Of these only what their parsers need: all that they require would replace other packages.
.venv/runtimes.stamp: .venv/test.stamp
	@$(PIP) -e ".[runtimes]"
	@$(PIP) --no-deps deepspeed==0.19.8 sglang==0.5.23 torchtitan==0.3.0
	@touch $@
