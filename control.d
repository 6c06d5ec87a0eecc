control.o: torch_extension/csrc/ops/control.cpp \
 torch_extension/csrc/aten/copy.h \
 torch_extension/csrc/runtime/allocator.h include/torchacc.h \
 torch_extension/csrc/runtime/generator.h \
 torch_extension/csrc/runtime/runtime.h
torch_extension/csrc/aten/copy.h:
torch_extension/csrc/runtime/allocator.h:
include/torchacc.h:
torch_extension/csrc/runtime/generator.h:
torch_extension/csrc/runtime/runtime.h:
