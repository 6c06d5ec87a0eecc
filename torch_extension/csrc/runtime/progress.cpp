#include "runtime/progress.h"

#include "runtime/runtime.h"

namespace torchacc {

uint64_t recorded_position() {
  uint64_t position = 0;
  if (context_if_created() != nullptr) check(torchacc_mark(context(), &position));
  return position;
}

bool has_reached(uint64_t position) {
  bool reached = true;
  if (context_if_created() != nullptr) check(torchacc_is_done(context(), position, &reached));
  return reached;
}

void wait_for(uint64_t position) {
  if (!has_reached(position)) synchronize();
}

}  // namespace torchacc
