# make bench    measure every mixer in both frameworks (the smoke suite) and print one screen about it
# make test     what CI runs first: every check, and the tests but the long ones
# make test-all   every test, the long ones too (20 minutes on two cores)
# make test-page  the page of `synthbench report` in a real browser; needs chromium
#               (apt-get install chromium)
# make test-slurm  the executor slurm against a real Slurm of two nodes on this machine; needs root and
#               Debian's packages (apt-get install slurm-wlm munge bindfs). OPTIONS='-m "not long"':
#               without the long tests, as in CI; so too for test-page and test-ray
# make test-ray   runs on a real Ray cluster of two nodes on this machine
# make microbench  a quick benchmark of each mixer, compared with the last one saved in .benchmarks
# make peers    our mixers beside packages and textbook code: time and memory (more than an hour)
# make faults   wrong inputs, kills of a run and bad conditions: none may break anything (about 15 minutes)
# make gpu-check  most branches that need a GPU: which ran, which was correct (10 minutes; on a machine
#               without one, the same as far as it goes). In the Python that has the frameworks for CUDA,
#               not in .venv: PYTHON=.venv/bin/python for that one. OUT=folder for the findings
# make paper-tables  docs/paper.md anew: the paper's tables, compared with the runs in results/
# make claims   docs/claims.md anew: what the paper says, and whether the runs in results/ agree
# make test-versions  the tests on Python 3.11, 3.12 and 3.13 with the oldest and the newest torch and
#                     jax (tests/versions/combinations.toml). Each combination takes about as long as
#                     make test; torch's CUDA wheels take 6 GB each. With STRICT=1 a missing Python is
#                     a failure; with ONLY="py311-oldest py312-newest" only these run.
# make test-cuda-compile  compile JAX's programs for an H100, without one: every variant, about an hour
#               (OPTIONS="--variants V,R+V --seq-len 512": some). Python 3.12 or later; 5 GB of packages
# make mutants  change the code in one place, 300 times, and see whether pytest notices: the score is
#               tests/mutants/score.json. With OPTIONS="--only measure --count 50" fewer; see
#               python -m tests.mutants --help
# make report   docs/seq_scaling.html anew: the page of the run results/seq_scaling/cpu-reference
# make clean    remove every virtual environment and cache
# make lock     write requirements.lock anew from the newest versions that pyproject.toml allows
# make lock-versions  the same for the combinations of make test-versions
#
# All that has to be there is make and Python 3.11 to 3.13: make bench PYTHON=python3.12

PYTHON ?= python3
PYTHON_CUDA ?= python3.12
DEVICE ?= cpu
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
PEERS := $(VENV)/peers-installed
TORCH_IN_LOCK := 2.13.0

.PHONY: bench test check-types check-style check-records test-all test-page test-slurm test-ray gpu-check test-cuda-compile lock-cuda-compile test-versions microbench mutants peers faults paper-tables claims report lock lock-versions clean python

bench: $(INSTALLED)
	$(BIN)/synthbench run --suite smoke --device $(DEVICE)

test: $(INSTALLED)
	@$(MAKE) --no-print-directory --jobs $(JOBS) check-types check-style check-records
	$(BIN)/pytest -n $(JOBS) -m "not long"

check-types: $(INSTALLED)
	$(BIN)/mypy

check-style: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

check-records: $(INSTALLED)
	$(BIN)/synthbench tables --check
	$(BIN)/python -m synthbench.suites.reference docs/suites.md --check

test-all: $(INSTALLED)
	$(BIN)/pytest -n $(JOBS)

# -rs: a test that is skipped says why; with chromium and the extra, none is.
test-page: $(VENV)/page-tests-installed
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
		echo "There is no chromium here; install it like this: apt-get install chromium"; exit 1; }
	$(BIN)/pytest -rs $(OPTIONS) tests/test_report_browser.py

$(VENV)/page-tests-installed: $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[page-tests]'
	touch $@

# -rs: a test that is skipped says why.
test-slurm: $(VENV)/slurm-installed
	@command -v sbatch >/dev/null || { \
		echo "There is no Slurm here; install it like this: apt-get install slurm-wlm munge"; exit 1; }
	$(BIN)/pytest -rs $(OPTIONS) tests/test_slurm.py tests/test_slurm_mistakes.py tests/test_slurm_runs.py \
		tests/test_slurm_shared_folder.py

$(VENV)/slurm-installed: $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[slurm]'
	touch $@

test-ray: $(VENV)/ray-installed
	$(BIN)/pytest -rs $(OPTIONS) tests/test_ray.py tests/test_ray_files.py tests/test_ray_runs.py

$(VENV)/ray-installed: $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[ray]'
	touch $@

# pip prefers a CPU build of torch (2.15.0+cpu) to the CUDA wheel where it finds one: with
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu or PIP_FIND_LINKS=<folder of wheels>.
test-versions: | python
	$(PYTHON) -m tests.versions.run $(ONLY) --jobs $(JOBS) $(if $(filter 1,$(STRICT)),--strict)

# A process and a folder for each framework; the first time there is nothing to compare with.
microbench: $(INSTALLED)
	for framework in torch jax; do \
		saved=.benchmarks/$$framework; \
		compare=$$(find $$saved -name '*.json' 2>/dev/null | grep -q . && echo --benchmark-compare); \
		$(BIN)/python -m pytest benchmarks/test_mixers.py -k "$$framework" --benchmark-enable \
			--benchmark-only --benchmark-storage=$$saved --benchmark-autosave \
			--benchmark-columns=median,iqr,rounds $$compare || exit 1; \
	done

mutants: $(INSTALLED)
	$(BIN)/python -m tests.mutants --jobs $(JOBS) $(OPTIONS)

peers: $(PEERS)
	$(BIN)/python -m benchmarks.peers --device $(DEVICE)

# Without dependencies: those that are not in this lock are in the other, and torch stays as it is.
$(PEERS): requirements-peers.lock $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps -r requirements-peers.lock
	touch $@

# Not in .venv, whose frameworks are those for CPUs.
gpu-check:
	@$(PYTHON) -c 'import synthbench.record' 2>/dev/null || { \
		echo "$(PYTHON) has no synthbench. Install it there, beside the frameworks for CUDA"; \
		echo "(docs/gpu.md), or name another Python: make gpu-check PYTHON=path"; exit 2; }
	$(PYTHON) -m benchmarks.gpu_check --out $(or $(OUT),gpu-check)

test-cuda-compile: .venv-cuda/installed
	.venv-cuda/bin/python -m tests.cuda_compile $(OPTIONS)

.venv-cuda/installed: tests/cuda_compile/requirements.lock
	$(PYTHON_CUDA) -m venv .venv-cuda
	.venv-cuda/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	touch $@

lock-cuda-compile:
	rm -rf $(VENV)-lock
	$(PYTHON_CUDA) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet 'jax[cuda13]' flax optax pydantic pyyaml tabulate
	{ sed -n '/^#/p' tests/cuda_compile/requirements.lock; \
		$(VENV)-lock/bin/python -m pip freeze --all --exclude pip | LC_ALL=C sort -f; } > .lock.new
	mv .lock.new tests/cuda_compile/requirements.lock
	rm -rf $(VENV)-lock

faults: $(INSTALLED)
	$(BIN)/python -m benchmarks.faults

paper-tables: $(INSTALLED)
	$(BIN)/synthbench tables --paper --page docs/paper.md --format terminal

claims: $(INSTALLED)
	$(BIN)/synthbench claims --format markdown --out docs/claims.md

report: $(INSTALLED)
	$(BIN)/synthbench report seq_scaling/cpu-reference --out docs/seq_scaling.html

$(INSTALLED): requirements.lock pyproject.toml | python
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile -r requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --editable .
	touch $@

python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no $(PYTHON) here; synthbench needs Python 3.11, 3.12 or 3.13." \
			"Name one like this: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
		echo "synthbench needs Python 3.11, 3.12 or 3.13; $(PYTHON) is" \
			"$$($(PYTHON) --version 2>&1). Name another like this: make PYTHON=python3.12"; exit 1; }

lock: | python
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet torch==$(TORCH_IN_LOCK) '.[all,test,dev]'
	{ sed -n '/^#/p' requirements.lock; \
		$(VENV)-lock/bin/python -m pip freeze --all --exclude pip --exclude synthbench \
			| sed 's/+[a-z0-9]*$$//' | grep -vE '^(cuda-|nvidia-[^m]|triton=)' | LC_ALL=C sort -f; } > .lock.new
	mv .lock.new requirements.lock
	rm -rf $(VENV)-lock

lock-versions: | python
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet uv
	$(VENV)-lock/bin/python -m tests.versions.lock
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-lock .venv-cuda .venvs .lock.new .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache .mutants build dist
	find synthbench tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
