#!/usr/bin/env bash
# Cargo runs test binaries by this script: .cargo/config.toml. A unit test of the library that has run for five minutes hangs
# (those of the emulated GPU compile C++): it prints the stacks of all threads and ends the run. What waits for a program has
# the watchdog of the library itself, and the other binaries have tests that take longer.
set -uo pipefail
case "$1" in
  */deps/torchacc-*) ;;
  *) exec "$@" ;;
esac

output=$(mktemp -u)
mkfifo "$output"
"$@" > "$output" &
tests=$!

# Ends the run unless it is ended itself before.
watch() {
  sleep 240
  printf 'test %s hangs\n' "$1" >&2
  gdb -p "$tests" -batch -ex "thread apply all backtrace" >&2 || eu-stack -p "$tests" >&2
  kill -ABRT "$tests"
}

declare -A watches
while IFS= read -r line; do
  printf '%s\n' "$line"
  read -r word name more <<< "$line"
  [ "$word" = test ] || continue
  if [ "$more" = "has been running for over 60 seconds" ]; then
    watch "$name" &
    watches[$name]=$!
  elif [ -n "${watches[$name]:-}" ]; then
    # The watch before its sleep, or it would wake up and say so.
    kill "${watches[$name]}" $(pgrep -P "${watches[$name]}")
  fi
done < "$output"
rm -f "$output"
wait "$tests"
