# Examples in other languages, one command each: make example-c, example-node, … They train language models on TEXT, a file
# (one of the Python standard library's sources where none is given), or classifiers on the UCI digits; STEPS=N steps or epochs.

EXAMPLES := target/examples
TEXT ?= $(shell $(PYTHON) -c 'import argparse; print(argparse.__file__)')
DIGITS := $(EXAMPLES)/digits.csv
PACKAGES := $(EXAMPLES)/packages
LIBRARY := $(EXT_DIR)/libtorchacc.so.1
# With the library beside them.
EXAMPLE_FLAGS := -O2 -Wall -Wextra -pedantic -Iinclude -Wl,-rpath,$(dir $(abspath $(LIBRARY)))

.PHONY: example-c example-module example-tensorflow example-ranks example-cpp example-libtorch example-ctypes example-node example-luajit example-java

# The environment's oneDNN and CUDA, for programs that know nothing of Python's packages.
example-c example-module example-tensorflow example-ranks example-cpp example-ctypes example-node example-luajit example-java: \
	export TORCHACC_ONEDNN ?= $(wildcard $(VENV)/lib/libdnnl.so.3)
example-c example-module example-tensorflow example-ranks example-cpp example-ctypes example-node example-luajit example-java: \
	export TORCHACC_CUDA ?= $(CUDA_FOLDERS)

# A transformer. WIDTH=N.
example-c: $(LIBRARY)
	@mkdir -p $(EXAMPLES)
	$(CC) -std=c11 $(EXAMPLE_FLAGS) examples/c/language_model.c $< -lm -o $(EXAMPLES)/language_model
	$(EXAMPLES)/language_model $(TEXT) $(or $(STEPS),300) $(or $(WIDTH),64)

# What another system has written into this folder.
define train_module
	$(CC) -std=c11 $(EXAMPLE_FLAGS) examples/c/train_module.c $< -o $(EXAMPLES)/train_module
	$(EXAMPLES)/train_module $(EXAMPLES)/$(1)/step.mlir $(EXAMPLES)/$(1)/inputs.safetensors $(or $(STEPS),100)
endef

# A GPT that JAX, in an environment of its own, has written down, without JAX and Python.
example-module: $(LIBRARY) $(EXAMPLES)/jax/.requirements
	$(EXAMPLES)/jax/bin/python examples/stablehlo/gpt.py $(TEXT) $(EXAMPLES)/module
	$(call train_module,module)

$(EXAMPLES)/jax/.requirements:
	$(PYTHON) -m venv $(EXAMPLES)/jax
	$(EXAMPLES)/jax/bin/pip install --quiet jax safetensors
	touch $@

# Likewise a network that TensorFlow has written down.
example-tensorflow: $(LIBRARY) $(EXAMPLES)/tensorflow/.requirements
	$(EXAMPLES)/tensorflow/bin/python examples/stablehlo/tensorflow_text.py $(TEXT) $(EXAMPLES)/tensorflow_text
	$(call train_module,tensorflow_text)

$(EXAMPLES)/tensorflow/.requirements:
	$(PYTHON) -m venv $(EXAMPLES)/tensorflow
	$(EXAMPLES)/tensorflow/bin/pip install --quiet tensorflow-cpu safetensors
	touch $@

# A small network in several processes, which connect by sockets. RANKS=N.
example-ranks: $(LIBRARY)
	@mkdir -p $(EXAMPLES)
	$(CC) -std=c11 $(EXAMPLE_FLAGS) examples/c/train_ranks.c $< -lm -o $(EXAMPLES)/train_ranks
	$(EXAMPLES)/train_ranks $(or $(RANKS),3) $(STEPS)

example-cpp: $(LIBRARY) $(DIGITS)
	$(CXX) -std=c++17 $(EXAMPLE_FLAGS) examples/cpp/digits.cpp $< -o $(EXAMPLES)/digits
	$(EXAMPLES)/digits $(DIGITS) $(STEPS)

# PyTorch's C++ library on device "acc", without Python.
example-libtorch: $(EXAMPLES)/libtorch_digits $(DIGITS)
	$< $(DIGITS) $(or $(STEPS),10) $(CURDIR)/$(EXT_DIR)/libtorchacc_torch.so

$(EXAMPLES)/libtorch_digits: examples/libtorch/digits.cpp | build
	@mkdir -p $(@D)
	$(CXX) -std=$(EXT_STD) -O1 -Wall -Wextra -isystem $(EXT_TORCH)/include \
		-isystem $(EXT_TORCH)/include/torch/csrc/api/include $< -o $@ \
		-L$(EXT_TORCH)/lib -Wl,-rpath,$(EXT_TORCH)/lib -Wl,--no-as-needed -ltorch -ltorch_cpu -lc10 -ldl

# Python with numpy, without PyTorch.
example-ctypes: $(LIBRARY) $(VENV)/.requirements
	TORCHACC_LIBRARY=$(abspath $<) $(BIN)/python examples/ctypes/train.py $(TEXT) $(STEPS)

# Node.js 18 or newer with npm, which brings the package koffi.
example-node: $(LIBRARY)
	cd examples/node && npm install --silent --no-audit --no-fund --no-package-lock
	TORCHACC_LIBRARY=$(abspath $<) node examples/node/train.mjs $(TEXT) $(STEPS)

# LuaJIT 2.1. Where there is none on the PATH it comes from Debian's archive; or give LUAJIT=/path/to/luajit.
LUAJIT ?= $(or $(shell command -v luajit),$(PACKAGES)/luajit/usr/bin/luajit)
example-luajit: $(LIBRARY) $(LUAJIT)
	TORCHACC_LIBRARY=$(abspath $<) LD_LIBRARY_PATH=$$(echo $(PACKAGES)/luajit/usr/lib/*) \
		$(LUAJIT) examples/luajit/train.lua $(TEXT) $(STEPS)

# Java 17 or newer. The package JNA comes from Debian's archive; where there is none, give JNA=jna.jar (net.java.dev.jna:jna).
JNA ?= $(PACKAGES)/java/usr/share/java/jna.jar
example-java: $(LIBRARY) $(JNA)
	javac -Xlint -Werror -cp $(JNA) -d $(EXAMPLES)/java examples/java/*.java
	TORCHACC_LIBRARY=$(abspath $<) java -Djna.nosys=false -Djava.library.path=$$(echo $(PACKAGES)/java/usr/lib/*/jni) \
		-cp $(JNA):$(EXAMPLES)/java Train $(TEXT) $(STEPS)

$(PACKAGES)/luajit/usr/bin/luajit: $(PACKAGES)/luajit/unpacked
$(PACKAGES)/java/usr/share/java/jna.jar: $(PACKAGES)/java/unpacked

# Debian's packages of the names and versions in the list, and no others, unpacked beside each other.
$(PACKAGES)/%/unpacked: examples/%/packages.sha256
	rm -rf $(@D) && mkdir -p $(@D)
	cd $(@D) && apt-get --quiet=2 download $$(sed 's/^[^ ]*  //; s/_/=/; s/_.*//' $(CURDIR)/$<)
	cd $(@D) && sha256sum --quiet --check $(CURDIR)/$<
	for package in $(@D)/*.deb; do dpkg-deb -x $$package $(@D) || exit 1; done
	touch $@

$(DIGITS): examples/digits.py | $(VENV)/.requirements
	$(BIN)/python $< $@
