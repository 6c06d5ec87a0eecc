/* Numbers that look random and are the same for the same seed. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

static uint64_t state;

static inline uint32_t draw(uint32_t below) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t x = state;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return (uint32_t)((x ^ (x >> 31)) % below);
}

#endif
