#!/usr/bin/env bash
# Cargo runs test binaries by this script: .cargo/config.toml. A unit test of the library that has run for a minute hangs: it
# prints the stacks of all threads and ends the run. What waits for a program has the watchdog of the library itself, and the
# other binaries have tests that take longer.
set -uo pipefail
case "$1" in
  */deps/torchacc-*) ;;
  *) exec "$@" ;;
esac

output=$(mktemp -u)
mkfifo "$output"
"$@" > "$output" &
tests=$!
while IFS= read -r line; do
  printf '%s\n' "$line"
  case "$line" in
    *"has been running for over 60 seconds"*)
      gdb -p "$tests" -batch -ex "thread apply all backtrace" >&2 || eu-stack -p "$tests" >&2
      kill -ABRT "$tests"
      ;;
  esac
done < "$output"
rm -f "$output"
wait "$tests"
