# Needs make, a POSIX shell and Python 3.11 or newer, on Linux or macOS. Everything else goes into $(VENV), from the locks in requirements/.
#
#   PYTHON=python3.12   the Python that $(VENV) is made with
#   VENV=.venv          where it is made
#   TORCH=2.13.0        another release of torch than the pinned one
#   TORCH_INDEX=URL     the package index that torch comes from. On Linux the default index brings the CUDA build and several gigabytes
#                       of CUDA packages; TORCH_INDEX=https://download.pytorch.org/whl/cpu brings the CPU build.
#   PYTEST_ARGS=...     passed on to pytest, for example PYTEST_ARGS='-m "not slow"'

ifeq ($(OS),Windows_NT)
  $(error Windows is not supported. Use Linux, macOS or the Windows Subsystem for Linux)
endif

ifneq ($(filter rehearse,$(MAKECMDGOALS)),)
  ifeq ($(RUN),)
    $(error Name a run, for example: make rehearse RUN=digits-ddp. The runs here: $(subst _,-,$(notdir $(basename $(wildcard charts/runs/*.yaml charts/runs/*.py)))))
  endif
endif

PYTHON ?= python3
VENV ?= .venv
TORCH ?= $(shell sed -n 's/^torch==//p' requirements/torch.txt)
TORCH_INDEX ?=
PYTEST_ARGS ?=
RUN ?=

BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PROJECTS := pyproject.toml trainer/pyproject.toml
# --no-deps: a lock is complete, so pip has nothing to resolve, and a gap in it shows in `pip check`.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL_LOCK := $(INSTALL) --require-hashes --no-deps --requirement
COMPILE := $(BIN)/uv --quiet --config-file requirements/uv.toml pip compile --universal --python-version 3.11 --generate-hashes \
  --custom-compile-command "make lock" --constraint requirements/torch.txt \
  --no-emit-package torch --no-emit-package trainwright-trainer $(if $(UPGRADE),--upgrade)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help synth check rehearse crds test lint fmt bench lock clean

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

synth: $(STAMPS)/synth ## Compile every run in charts/ into dist/ and print its plan
	$(BIN)/trainwright synth

check: $(STAMPS)/synth ## Fail when dist/ is stale, edited by hand, invalid or against policy
	$(BIN)/trainwright check

rehearse: $(STAMPS)/rehearse ## Run a run's YAML on this machine: make rehearse RUN=digits-ddp
	$(BIN)/trainwright rehearse $(RUN)

crds: $(STAMPS)/venv ## Fetch the operators' CRDs for `trainwright validate` into build/crds
	$(BIN)/python tools/crds/fetch.py build/crds

test: lint ## ruff, mypy and all tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(STAMPS)/test ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/mypy

fmt: $(STAMPS)/test ## Sort imports and make ruff's safe fixes
	$(BIN)/ruff check --fix

bench: $(STAMPS)/test ## Measure us beside the alternative: start-up, and 1,000 runs (7 minutes); prints ratios, fails nothing else
	$(BIN)/python benchmarks/compile.py
	$(BIN)/python benchmarks/startup.py

lock: $(STAMPS)/lock ## Write the locks again after an edit of a pyproject.toml; UPGRADE=1 takes newer releases too
	$(COMPILE) pyproject.toml --group test trainer/pyproject.toml --extra torch --output-file requirements/test.txt
	$(COMPILE) pyproject.toml --group build trainer/pyproject.toml --extra torch --constraint requirements/test.txt --output-file requirements/rehearse.txt
	$(COMPILE) pyproject.toml --group build --constraint requirements/test.txt --output-file requirements/synth.txt
	$(COMPILE) trainer/pyproject.toml --extra torch --constraint requirements/test.txt --output-file requirements/trainer.txt
	$(COMPILE) --group build --constraint requirements/test.txt --output-file requirements/build.txt
	$(COMPILE) --group lock --output-file requirements/lock.txt

clean: ## Remove the virtual environment and the tools' caches
	rm -rf "$(VENV)" .mypy_cache .ruff_cache .pytest_cache .hypothesis

# What is installed so far. A stamp is older than a lock that changed, so the next make installs it.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed, and $(PYTHON) is: $$($(PYTHON) --version 2>&1 || true)"; \
	  echo "Name another one, for example: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv "$(VENV)"
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/synth: $(STAMPS)/venv requirements/synth.txt $(PROJECTS)
	$(INSTALL_LOCK) requirements/synth.txt
	$(INSTALL) --no-deps --no-build-isolation --editable ./trainer --editable .
	$(BIN)/python -m pip check
	@$(BIN)/python -m compileall -q constructs trainer/trainwright_trainer  # else each start compiles where Python may not write
	@touch $@

$(STAMPS)/rehearse: $(STAMPS)/synth $(STAMPS)/torch-$(TORCH)
	@touch $@

$(STAMPS)/torch-$(TORCH): requirements/rehearse.txt | $(STAMPS)/synth
	$(INSTALL_LOCK) requirements/rehearse.txt
	$(INSTALL) torch==$(TORCH) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@touch $@

$(STAMPS)/test: $(STAMPS)/rehearse requirements/test.txt
	$(INSTALL_LOCK) requirements/test.txt
	$(BIN)/python -m pip check
	@touch $@

$(STAMPS)/lock: $(STAMPS)/venv requirements/lock.txt
	$(INSTALL_LOCK) requirements/lock.txt
	@touch $@
