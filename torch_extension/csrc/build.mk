# The C++ side of the device, included by the top Makefile: `make extension` builds libtorchacc_torch.so
# against the installed PyTorch and puts libtorchacc beside it, where its rpath looks.

EXT_BUILD := torch_extension/build
EXT_SOURCES := $(wildcard torch_extension/csrc/*/*.cpp)
EXT_OBJECTS := $(EXT_SOURCES:torch_extension/csrc/%.cpp=$(EXT_BUILD)/%.o)

# Found when a recipe runs, not when make starts: PyTorch may only be installed by then.
EXT_TORCH = $(eval EXT_TORCH := $(shell $(BIN)/python -c \
	'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])'))$(EXT_TORCH)

EXT_CXXFLAGS = -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter \
	-Itorch_extension/csrc -Iinclude -isystem $(EXT_TORCH)/include \
	-isystem $(EXT_TORCH)/include/torch/csrc/api/include

.PHONY: extension
extension: $(EXT_DIR)/libtorchacc_torch.so

$(EXT_BUILD)/%.o: torch_extension/csrc/%.cpp include/torchacc.h
	@mkdir -p $(@D)
	$(CXX) $(EXT_CXXFLAGS) -MMD -MP -c $< -o $@

# install, not cp: a new file, so that a running program keeps the one it has mapped.
$(EXT_DIR)/libtorchacc.so.1: $(RUST_LIB)
	@mkdir -p $(@D)
	install -m 755 $< $@

# No libpython: the Python side calls operators.
$(EXT_DIR)/libtorchacc_torch.so: $(EXT_OBJECTS) $(EXT_DIR)/libtorchacc.so.1
	$(CXX) -shared -Wl,--no-undefined -Wl,-rpath,'$$ORIGIN' $(EXT_OBJECTS) $(EXT_DIR)/libtorchacc.so.1 \
		-L$(EXT_TORCH)/lib -ltorch -ltorch_cpu -lc10 -o $@

-include $(EXT_OBJECTS:.o=.d)
