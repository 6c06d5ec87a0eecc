// Reads and writes at indices. An index out of range stops the run.

template <class I>
DEVICE i64 checked(u64* status, u64 step, const I* index, i64 i, i64 size) {
  const i64 at = (i64)index[i];
  if (at >= 0 && at < size) return at;
  stop(status, STATUS_INDEX, step, at, size);
  return -1;
}

// The thread's index in the grid.
DEVICE i64 thread_number() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }

// Checks that all of `count` indices are in range, before anything is overwritten.
template <class I>
DEVICE void check_indices(u64* status, u64 step, const I* index, i64 count, i64 size) {
  const i64 i = thread_number();
  if (i < count) checked(status, step, index, i, size);
}

// out[o, m, i] = x[o, index[m], i]; `inner` is in units of T, which is only moved.
template <class T, class I>
DEVICE void take(u64* status, u64 step, const T* x, const I* index, T* out, i64 outer, i64 size,
                 i64 count, i64 inner) {
  const i64 n = thread_number();
  if (n >= outer * count * inner) return;
  const i64 line = n / inner;
  const i64 at = checked(status, step, index, line % count, size);
  if (at >= 0) out[n] = x[(line / count * size + at) * inner + n % inner];
}

// Calls `change(i, at(i))` for the positions of a line, in order where the `at` are equal: a block
// for each line, whose threads take neighbouring positions. Of those whose `at` have the same slot
// the first goes first, and the others try again.
template <class At, class Change>
DEVICE void in_order(i64 places, const At& at, const Change& change) {
  enum { SLOTS = 1024 };
  __shared__ i32 first[SLOTS];
  const i32 mine = threadIdx.x;
  for (i64 tile = 0; tile < places; tile += blockDim.x) {
    const i64 i = tile + mine;
    bool waits = i < places;
    const i64 to = waits ? at(i) : 0;
    i32* const slot = first + to % SLOTS;
    do {
      if (waits) *slot = blockDim.x;
      __syncthreads();
      if (waits) atomicMin(slot, mine);
      __syncthreads();
      if (waits && *slot == mine) {
        change(i, to);
        waits = false;
      }
    } while (__syncthreads_or(waits));
  }
}

// Lists the positions of each index, in scratch memory: `starts` (size + 1), `cursors` (size), then
// `places` and `sorted` (count). First of four steps: empties all lists.
DEVICE void lists_clear(i32* starts, i64 size) {
  const i64 i = thread_number();
  if (i <= size) starts[i] = 0;
}

// Counts the positions of each index.
template <class I>
DEVICE void lists_count(u64* status, u64 step, const I* index, i32* starts, i64 count, i64 size) {
  const i64 i = thread_number();
  if (i >= count) return;
  const i64 at = checked(status, step, index, i, size);
  if (at >= 0) atomicAdd(&starts[at + 1], 1);
}

// Turns counts into starts; one block.
DEVICE void lists_begin(i32* starts, i64 size) {
  __shared__ i32 sums[256];
  const i64 part = (size + 255) / 256, from = threadIdx.x * part;
  const i64 to = from + part < size ? from + part : size;
  i32 sum = 0;
  for (i64 i = from; i < to; i++) sum += starts[i + 1];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    i32 before = 0;
    for (int t = 0; t < 256; t++) {
      const i32 here = sums[t];
      sums[t] = before;
      before += here;
    }
  }
  __syncthreads();
  i32 end = sums[threadIdx.x];
  i32* cursors = starts + size + 1;
  for (i64 i = from; i < to; i++) {
    cursors[i] = end;
    end += starts[i + 1];
    starts[i + 1] = end;
  }
}

// Puts each position in the list of its index, in any order.
template <class I>
DEVICE void lists_fill(const I* index, i32* starts, i64 count, i64 size) {
  const i64 i = thread_number();
  if (i >= count) return;
  i32* cursors = starts + size + 1;
  i32* places = cursors + size;
  places[atomicAdd(&cursors[index[i]], 1)] = (i32)i;
}

enum { SHORT = 256 };

// Batcher's bitonic sort with all exchanges upwards: elements missing to a power of two would be
// above all others, and stay where they are.
DEVICE void sort_long(i32* list, const i32* from, i32 count) {
  for (i32 i = threadIdx.x; i < count; i += blockDim.x) list[i] = from[i];
  const auto exchange = [&](i64 low, i64 high) {
    if (high >= count || list[low] <= list[high]) return;
    const i32 larger = list[low];
    list[low] = list[high];
    list[high] = larger;
  };
  i64 whole = SHORT;
  while (whole < count) whole *= 2;
  for (i64 run = 2; run <= whole; run *= 2) {
    for (i64 step = run / 2; step > 0; step /= 2) {
      __syncthreads();
      for (i64 pair = threadIdx.x; pair < whole / 2; pair += blockDim.x) {
        const i64 low = pair / step * step * 2 + pair % step;
        // In the first step of a run, an element meets its mirror image.
        exchange(low, step == run / 2 ? low + 2 * (step - pair % step) - 1 : low + step);
      }
    }
  }
}

// Sorts each list, one block per index, so that sums are in the order of the positions.
DEVICE void lists_sort(i32* starts, i64 count, i64 size) {
  const i64 at = blockIdx.x;
  const i32 from = starts[at], to = starts[at + 1];
  const i32* places = starts + 2 * size + 1;
  i32* sorted = starts + 2 * size + 1 + count;
  if (to - from > SHORT) return sort_long(sorted + from, places + from, to - from);
  for (i32 i = from + threadIdx.x; i < to; i += blockDim.x) {
    const i32 mine = places[i];
    i32 rank = 0;
    for (i32 j = from; j < to; j++) rank += places[j] < mine;
    sorted[from + rank] = mine;
  }
}

// out[o, at, i] += Σ x[o, m, i] over the positions m of each index `at`.
template <class T>
DEVICE void add_lists(const i32* starts, const T* x, T* out, i64 outer, i64 size, i64 count,
                      i64 inner) {
  const i64 n = thread_number();
  if (n >= outer * size * inner) return;
  const i64 column = n % inner, row = n / inner, at = row % size, o = row / size;
  const i32 from = starts[at], to = starts[at + 1];
  if (from == to) return;
  const i32* sorted = starts + 2 * size + 1 + count;
  T* target = out + n;
  typedef reduce_sum<Held<T>> Fold;
  typename Fold::type sum = Fold::of(get(target), 0);
  x += o * count * inner + column;
  i32 i = from;
  // Loads some elements while others are added.
  enum { AHEAD = 8 };
  for (; i + AHEAD <= to; i += AHEAD) {
    Held<T> next[AHEAD];
    UNROLL for (int n = 0; n < AHEAD; n++) next[n] = get(x + sorted[i + n] * inner);
    UNROLL for (int n = 0; n < AHEAD; n++) sum = Fold::join(sum, Fold::of(next[n], 0));
  }
  for (; i < to; i++) sum = Fold::join(sum, Fold::of(get(x + sorted[i] * inner), 0));
  put(target, (Held<T>)sum);
}
