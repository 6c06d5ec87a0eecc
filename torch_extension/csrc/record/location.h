// Which Python line recorded an operation. Stacks are captured raw when an operation is recorded at
// a call site not seen before, and turned into text only when an error or a report needs it.
#pragma once

#include <torchacc.h>

#include <cstdint>
#include <string>

namespace torchacc {

// Names the operator that this thread is recording, for the sites captured meanwhile: the library
// only knows the primitives it is lowered to.
class RecordingScope {
 public:
  explicit RecordingScope(const std::string& name);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  const std::string* outer_;
};

// Matches torchacc_locate_fn. May take the GIL: call without locks.
uint64_t capture_site(void* user) noexcept;

// Matches torchacc_line_fn: sites on one line get one number, which stays valid. May take the GIL.
uint64_t line_of(void* user, uint64_t site) noexcept;

// Matches torchacc_warn_fn: a Python warning.
void warn_about(void* user, torchacc_str message, uint64_t site) noexcept;

// "file.py:12" of the user's line, or empty when it is not known any more.
std::string site_line(uint64_t site);

// Whether this thread is turning a stack into text.
bool is_symbolizing();

// A suffix for an error message, empty for an unknown site.
std::string describe_site(uint64_t site);

}  // namespace torchacc
