# make train   a fresh clone trains a GPT on the Python standard library's own source
#              STEPS=N length, DEVICE=cpu eager PyTorch, COMPARE=1 acc and eager, RESUME=1 go on after a stop
# make train-ddp a smaller one in two processes by torchrun; RANKS=N how many, DEVICE=cpu eager PyTorch, TRAIN_ARGS
# make train-parallel the same model in parts: four processes (FSDP2 x TP), two that go on, one to compare; STEPS, TRAIN_ARGS
# make train-elastic the same model in four processes that stop, and two that go on with the same batches; TRAIN_ARGS
# make wheel   the Python package with its libraries, for others to install: dist/torch-2.11/*.whl; make sdist its sources
#              TORCH_PYTHON=python  for the PyTorch of another environment
# make install the library for other programs: headers, pkg-config, CMake; PREFIX=/usr/local LIBDIR=lib DESTDIR=
# make example-c, example-ranks, example-cpp, example-libtorch, example-ctypes, example-node, example-luajit, example-java
#              the same without Python or without PyTorch: examples/build.mk
# make test    everything that continuous integration checks
# make test-libraries Hugging Face's libraries and Lightning on acc; installs them, into .venv-libraries
# make test-wheel the wheel with its requirements in an empty environment of every CPython from 3.10 to 3.13 that is here
# make docs    the pages of docs/ as HTML with references of Python, the operators and C, into target/docs
# make test-models small models of transformers, timm and PyTorch's examples on acc against the CPU; writes docs/models.md
# make test-gpu the tests that are worth repeating on an NVIDIA GPU; make gpu-kit and tests/gpu/run.py where nothing can be built
# make test-distributed every engine of PyTorch for several processes, whole; make test has the short form
# make test-parallel every combination of torchacc.accelerate, whole; make test has the short form
# make test-chaos a training that is killed and loses disks and machines, whole; make test has the short form
# make test-operators PyTorch's tables of operators, modules and optimizers, whole; writes docs/operators_tested.md
# make test-random an hour of random programs on acc against the CPU; SECONDS=N how long, SEED=N which, BACKEND=reference on what
# make openxla-plugin a plugin of OpenXLA for the CPU (63 MB), on which some tests run where it is there
# make test-plugins random programs on that plugin and on another one
# make sanitize the library itself with the address and the thread sanitizer
# make format  rewrite all sources in the project's format

PYTHON ?= python3
PREFIX ?= /usr/local
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
EXT_DIR := torch_extension/torchacc/lib
RUST_LIB := target/release/libtorchacc.so
C_SOURCES = $(shell git ls-files '*.c' '*.h' '*.cpp' '*.hpp' '*.cuh' ':!include/torchacc.h')
TRAIN_FLAGS := $(if $(STEPS),--steps $(STEPS)) --device $(or $(DEVICE),acc) \
	$(if $(COMPARE),--compare) $(if $(RESUME),--resume) $(TRAIN_ARGS)

space := $(subst ,, )
# Where PyTorch's wheel brings CUDA's libraries.
CUDA_FOLDERS = $(subst $(space),:,$(wildcard $(VENV)/lib/python3*/site-packages/nvidia/*/lib))

.DEFAULT_GOAL := build
.PHONY: build docs environment install wheel sdist extension train train-ddp train-parallel train-elastic test test-libraries test-models test-gpu gpu-kit test-rust test-python test-distributed test-parallel test-chaos test-wheel test-operators test-random test-plugins openxla-plugin sanitize sanitize-memory sanitize-threads lint lint-rust format bench-calls bench-peers bench-distributed bench-overlap bench-predicted bench-checkpoints clean FORCE

build: environment $(RUST_LIB)
	$(MAKE) --no-print-directory --jobs=$(shell nproc) extension

# The virtual environment, again whenever the pins change.
$(VENV)/.requirements: torch_extension/requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -r $<
	touch $@

# The package in development mode: its entry point is what lets `import torch` find the device.
# The first line is for environments from before it had this name.
$(VENV)/.installed: pyproject.toml setup.py $(VENV)/.requirements
	$(BIN)/pip uninstall -qq --yes torchacc
	$(BIN)/pip install --quiet --no-build-isolation --no-deps -e .
	touch $@

environment: $(VENV)/.installed

install: $(RUST_LIB)
	DESTDIR=$(DESTDIR) LIBDIR=$(LIBDIR) packaging/install.sh $(PREFIX) $(RUST_LIB)

# Tagged with the oldest system that it runs on, by the symbols that it needs; auditwheel would copy what it finds none of on
# such a system, but PyTorch's libraries are in PyTorch. One folder for each PyTorch: the wheels' names are the same.
DIST := dist
TORCH_PYTHON ?= $(BIN)/python
wheel: $(VENV)/.requirements
	rm -rf target/wheel
	$(TORCH_PYTHON) -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir target/wheel .
	PATH=$(BIN):$$PATH auditwheel repair --plat auto --exclude libtorch.so --exclude libtorch_cpu.so --exclude libc10.so \
		--wheel-dir $(DIST)/torch-$$(cut -d. -f1,2 torch_extension/build/torch_version) target/wheel/*.whl

sdist: $(VENV)/.requirements
	$(BIN)/python setup.py --quiet sdist --dist-dir $(DIST)

# Cargo knows what changed; it leaves the file as it is when nothing did.
$(RUST_LIB): FORCE
	cargo build --release

# Defines `extension`: the C++ side of the device, into $(EXT_DIR).
-include torch_extension/csrc/build.mk
# Defines `example-…`.
include examples/build.mk
# Found when a recipe runs, not when make starts: PyTorch may only be installed by then.
EXT_TORCH = $(eval EXT_TORCH := $(shell $(BIN)/python -c \
	'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])'))$(EXT_TORCH)
$(EXT_BUILD)/torch_version: | $(VENV)/.requirements

train: build
	$(BIN)/python examples/train_gpt.py $(TRAIN_FLAGS)

train-ddp: build
	OMP_NUM_THREADS=$(or $(OMP_NUM_THREADS),1) $(BIN)/torchrun --standalone --nproc-per-node $(or $(RANKS),2) \
		examples/train_ddp.py --device $(or $(DEVICE),acc) $(if $(STEPS),--steps $(STEPS)) $(TRAIN_ARGS)

# Four processes, then two that go on from their state, then one, whose losses are to be the same.
PARALLEL = examples/train_parallel.py $(if $(STEPS),--steps $(STEPS)) $(TRAIN_ARGS)
RANKS_RUN = OMP_NUM_THREADS=$(or $(OMP_NUM_THREADS),1) $(BIN)/torchrun --standalone --nproc-per-node
train-parallel: build
	$(RANKS_RUN) 4 $(PARALLEL) --tp 2
	$(RANKS_RUN) 2 $(PARALLEL) --tp 1 --resume
	$(BIN)/python $(PARALLEL) --tp 1 --steps $$((2 * $(or $(STEPS),20)))
	$(BIN)/python $(PARALLEL) --report

train-elastic: build
	$(RANKS_RUN) 4 examples/train_elastic.py --stop-at 12 $(TRAIN_ARGS)
	$(RANKS_RUN) 2 examples/train_elastic.py $(TRAIN_ARGS)

# The environments are installed while one processor checks the Rust sources.
test:
	$(MAKE) --jobs=2 docs lint-rust lint
	$(MAKE) test-rust test-python

# With oneDNN where the environment has it: the tests then fail if it cannot be loaded. With NVRTC, which comes with PyTorch's
# wheel and needs no GPU: the kernels are compiled.
test-rust: $(VENV)/.requirements
	TORCHACC_ONEDNN=$(wildcard $(VENV)/lib/libdnnl.so.3) \
	TORCHACC_CUDA=$(CUDA_FOLDERS) cargo test

# The library of debug builds too: it has a device made of the host, on which some tests run. `cargo test` has made it; `cargo
# build` would make another one, for features of dependencies that the tests' own turn on. A file of tests is one worker's.
WORKERS ?= 2
DEBUG_LIB = cargo test --quiet --no-run --test layers
test-python: build
	$(DEBUG_LIB)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --durations 25 torch_extension/tests

# Every engine with both models in two and in four processes, twenty steps each, and fifty ranks that go wrong.
test-distributed: build
	$(DEBUG_LIB)
	TORCHACC_DISTRIBUTED=whole $(BIN)/python -m pytest torch_extension/tests/test_distributed.py

# Every combination of `accelerate` with both models in two, four and eight processes, twenty steps each.
test-parallel: build
	TORCHACC_PARALLEL=whole $(BIN)/python -m pytest torch_extension/tests/test_accelerate.py

# A training of two processes that is disturbed two hundred times; faults planted in devices and links, twenty times each.
test-chaos: build
	TORCHACC_CHAOS=whole $(BIN)/python -m pytest torch_extension/tests/test_checkpoint_chaos.py
	TORCHACC_HEALTH=whole $(BIN)/python -m pytest torch_extension/tests/test_health_ranks.py

# Downloads PyTorch for each of them, 6 GB, and keeps what failed.
test-wheel: build
	TORCHACC_WHEEL=whole $(BIN)/python -m pytest -rs -o tmp_path_retention_policy=failed torch_extension/tests/test_wheel.py

# Every type and every input that the tables generate, on acc and on the CPU, each test with a limit of time; make test has a sample.
test-operators: build
	PYTHONPATH=torch_extension/tests $(BIN)/python -W ignore -m whole_tables --workers $(WORKERS) \
		--write docs/operators_tested.md

# Ends at the first failure, which it prints as a script; the seed is the first line.
test-random: build
	TORCHACC_BACKEND=$(or $(BACKEND),cpu) PYTHONPATH=torch_extension/tests $(BIN)/python -m random_programs \
		--seconds $(or $(SECONDS),3600) $(if $(SEED),--seed $(SEED))

OPENXLA := target/openxla
OPENXLA_PLUGIN := $(OPENXLA)/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so
openxla-plugin: $(OPENXLA_PLUGIN)
$(OPENXLA_PLUGIN):
	$(PYTHON) -m pip download --quiet --no-deps --dest $(OPENXLA) xla-cpu-pjrt==0.0.1
	$(PYTHON) -m zipfile -e $(OPENXLA)/xla_cpu_pjrt-0.0.1-*.whl $(OPENXLA)

# Random programs on two plugins, of different versions of the API, and what is said of plugins on the second. COUNT=N programs each.
OTHER := $(OPENXLA)/fastatomstruct_xla_cpu/libpjrt_cpu.so
test-plugins: $(OPENXLA_PLUGIN) $(OTHER)
	for plugin in $^; do \
		TORCHACC_OPENXLA=$(CURDIR)/$$plugin TORCHACC_FUZZ_OPENXLA=$(or $(COUNT),100) cargo test --test fuzz openxla || exit; \
	done
	TORCHACC_OPENXLA=$(CURDIR)/$(OTHER) cargo test --test openxla
$(OTHER):
	$(PYTHON) -m pip download --quiet --no-deps --dest $(OPENXLA) fastatomstruct-xla-cpu==2026.6.23
	$(PYTHON) -m zipfile -e $(OPENXLA)/fastatomstruct_xla_cpu-2026.6.23-*.whl $(OPENXLA)

# With version 5 of transformers and with version 4, to which Lightning is indifferent.
LIBRARIES := $(CURDIR)/.venv-libraries
MODEL_TESTS := torch_extension/tests_models
test-libraries: build $(LIBRARIES)/5/.requirements $(LIBRARIES)/4/.requirements
	$(LIBRARIES)/5/bin/python -m pytest $(MODEL_TESTS)
	$(LIBRARIES)/5/bin/python -m pytest torch_extension/tests/test_stablehlo_bytecode.py
	$(MAKE) example-module example-tensorflow STEPS=10
	$(LIBRARIES)/4/bin/python -m pytest $(MODEL_TESTS) --ignore $(MODEL_TESTS)/test_lightning.py

DOCS_VENV := $(CURDIR)/.venv-docs

docs: $(DOCS_VENV)/.requirements
	$(DOCS_VENV)/bin/mkdocs build --quiet --config-file packaging/site/mkdocs.yml

$(DOCS_VENV)/.requirements: packaging/site/requirements.txt
	test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet -r $<
	touch $@

test-models: build $(LIBRARIES)/models/.requirements
	$(LIBRARIES)/models/bin/python -m pytest torch_extension/tests_matrix

# Environments that see the packages of the other one, PyTorch above all, and this one.
$(LIBRARIES)/%/.requirements: $(MODEL_TESTS)/requirements-%.txt $(VENV)/.installed
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	for folder in $(VENV)/lib/python3*/site-packages $(CURDIR)/torch_extension; do echo $$folder; done \
		> $$(echo $(@D)/lib/python3*/site-packages)/torch.pth
	$(@D)/bin/python -m pip install --quiet -r $<
	touch $@

test-gpu: gpu-kit
	$(BIN)/python tests/gpu/run.py

# What tests/gpu/run.py needs where nothing can be built: the kernels' tests, the libraries, and what PyTorch's table of
# operators imports.
GPU_KIT := target/gpu
gpu-kit: build
	mkdir -p $(GPU_KIT)
	cargo test --lib --no-run --message-format=json | \
		$(BIN)/python -c 'import json, sys; print(*filter(None, (json.loads(line).get("executable") for line in sys.stdin)))' | \
		xargs strip -o $(GPU_KIT)/kernels
	cp $(EXT_DIR)/* $(GPU_KIT)
	cp -r $(VENV)/lib/python3*/site-packages/expecttest $(GPU_KIT)

# The library itself and the C tests with the address sanitizer, then with the thread sanitizer: minutes. Their flag is one of
# unstable compilers, so a stable one must be told that it is meant. The first one's runtime is the C compiler's. The second
# must see the standard library's locks too, so that is built with it, from its source (rustup component add rust-src).
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
SYSROOT = $(shell rustc --print sysroot)/lib/rustlib
sanitize: sanitize-memory sanitize-threads

sanitize-memory:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address \
		cargo build --target-dir target/sanitize --target $(HOST)
	TORCHACC_INSTRUMENTED=$(CURDIR)/target/sanitize/$(HOST)/debug/libtorchacc.so \
		cargo test --test ffi the_address_sanitizer

RACES = $(CURDIR)/target/sanitize-threads/$(HOST)/debug/libtorchacc.so:$(wildcard $(SYSROOT)/$(HOST)/lib/librustc*_rt.tsan.a)
sanitize-threads:
	@test -d $(SYSROOT)/src || { echo "Install the source of the standard library: rustup component add rust-src" >&2; exit 1; }
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread \
		cargo build --lib -Zbuild-std --target-dir target/sanitize-threads --target $(HOST)
	TORCHACC_RACES=$(RACES) cargo test --test ffi -- --ignored the_thread_sanitizer

lint-rust:
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

lint: lint-rust $(VENV)/.requirements
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(if $(C_SOURCES),$(BIN)/clang-format --dry-run -Werror $(C_SOURCES))

format: $(VENV)/.requirements
	cargo fmt
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(if $(C_SOURCES),$(BIN)/clang-format -i $(C_SOURCES))

# What a call costs through the C ABI.
bench-calls: $(LIBRARY)
	@mkdir -p $(EXAMPLES)
	$(CC) -std=c11 $(EXAMPLE_FLAGS) benches/calls/calls.c $< -o $(EXAMPLES)/calls
	$(EXAMPLES)/calls

# The same work on other runtimes; needs the network for their packages the first time.
bench-peers: build
	$(BIN)/python benches/peers/compare.py gpt --peers eager,compile,xla,jax

# Each rank with one thread, so that two of them have a core each on the smallest machine.
bench-distributed: build
	OMP_NUM_THREADS=1 TORCHACC_NUM_THREADS=1 ENGINES_CONTEXT=128 PYTHONPATH=torch_extension/tests \
		$(BIN)/torchrun --standalone --nproc-per-node $(or $(RANKS),2) benches/distributed/compare.py $(ENGINES)

bench-overlap: build
	ENGINES_CONTEXT=128 PYTHONPATH=torch_extension/tests $(BIN)/python benches/distributed/overlap.py \
		$(if $(SPEED),--speed $(SPEED)) $(if $(RANKS),--ranks $(RANKS)) $(if $(LAYERS),--layers $(LAYERS)) $(ENGINES)

bench-predicted: build
	ENGINES_CONTEXT=256 PYTHONPATH=torch_extension/tests $(BIN)/python benches/distributed/predicted.py $(KINDS)

bench-checkpoints: build
	OMP_NUM_THREADS=1 TORCHACC_NUM_THREADS=1 $(BIN)/torchrun --standalone --nproc-per-node $(or $(RANKS),2) \
		benches/distributed/checkpoints.py $(if $(GB),--gb $(GB)) $(if $(FOLDER),--folder $(FOLDER))
	OMP_NUM_THREADS=1 TORCHACC_NUM_THREADS=1 $(BIN)/python benches/distributed/restart.py

clean:
	rm -rf target dist torch_extension/build $(EXT_DIR)
