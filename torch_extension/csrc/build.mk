# The C++ side of the device, into $(EXT_DIR): libtorchacc_torch.so, built against the PyTorch in $(EXT_TORCH), libtorchacc
# ($(RUST_LIB)) beside it, where its rpath looks, and torch_version, which says what it was built for. The top Makefile
# includes this; setup.py runs it by itself.

EXT_BUILD := torch_extension/build
EXT_SOURCES := $(wildcard torch_extension/csrc/*/*.cpp)
EXT_OBJECTS := $(EXT_SOURCES:torch_extension/csrc/%.cpp=$(EXT_BUILD)/%.o)

# The dialect that PyTorch's headers ask for: C++17 of 2.11, C++20 of newer ones.
EXT_STD = $(if $(shell grep -s 202002L $(EXT_TORCH)/include/ATen/ATen.h),c++20,c++17)
EXT_TORCH_VERSION = $(shell sed -n "s/^__version__ = '\(.*\)'/\1/p" $(EXT_TORCH)/version.py)

EXT_CXXFLAGS = $(eval EXT_CXXFLAGS := -std=$(EXT_STD) -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter \
	-Itorch_extension/csrc -Iinclude -isystem $(EXT_TORCH)/include \
	-isystem $(EXT_TORCH)/include/torch/csrc/api/include)$(EXT_CXXFLAGS)

.PHONY: extension FORCE
extension: $(EXT_DIR)/libtorchacc_torch.so $(EXT_DIR)/torch_version

# What was compiled for another PyTorch is compiled again.
$(EXT_BUILD)/torch_version: FORCE
	@mkdir -p $(@D)
	@echo $(EXT_TORCH_VERSION) | cmp --quiet - $@ || echo $(EXT_TORCH_VERSION) > $@

# Most of the time that a file takes goes into PyTorch's headers. The copy is what the compiler reads where the precompiled one
# does not suit it.
EXT_HEADERS := $(EXT_BUILD)/headers.h
$(EXT_HEADERS).gch: torch_extension/csrc/headers.h $(EXT_BUILD)/torch_version
	cp $< $(EXT_HEADERS)
	$(CXX) $(EXT_CXXFLAGS) -x c++-header $(EXT_HEADERS) -o $@

$(EXT_BUILD)/%.o: torch_extension/csrc/%.cpp include/torchacc.h $(EXT_HEADERS).gch
	@mkdir -p $(@D)
	$(CXX) $(EXT_CXXFLAGS) -include $(EXT_HEADERS) -MMD -MP -c $< -o $@

# install, not cp: a new file, so that a running program keeps the one it has mapped.
$(EXT_DIR)/libtorchacc.so.1: $(RUST_LIB)
	@mkdir -p $(@D)
	install -m 755 $< $@

# No libpython: the Python side calls operators.
$(EXT_DIR)/libtorchacc_torch.so: $(EXT_OBJECTS) $(EXT_DIR)/libtorchacc.so.1
	$(CXX) -shared -Wl,--no-undefined -Wl,-rpath,'$$ORIGIN' $(EXT_OBJECTS) $(EXT_DIR)/libtorchacc.so.1 \
		-L$(EXT_TORCH)/lib -ltorch -ltorch_cpu -lc10 -o $@

$(EXT_DIR)/torch_version: $(EXT_BUILD)/torch_version $(EXT_DIR)/libtorchacc_torch.so
	install -m 644 $< $@

-include $(EXT_OBJECTS:.o=.d)
