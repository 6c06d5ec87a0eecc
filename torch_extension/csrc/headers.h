// PyTorch headers that many files include, compiled once (build.mk). Every file still includes the
// headers it uses.
#include <ATen/ATen.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
