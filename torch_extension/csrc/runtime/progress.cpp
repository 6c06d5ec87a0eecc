#include "runtime/progress.h"

#include "record/immediate.h"
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

uint64_t busy_ns() {
  uint64_t time = 0;
  if (context_if_created() != nullptr) check(torchacc_busy_ns(context(), &time));
  return time + immediate_ns();
}

void wait_for(uint64_t position) {
  if (!has_reached(position)) synchronize();
}

}  // namespace torchacc
