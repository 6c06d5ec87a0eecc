// Reading and writing where indices say. An index out of range stops the run.

template <class I>
DEVICE i64 checked(u64* status, u64 step, const I* index, i64 i, i64 size) {
  const i64 at = (i64)index[i];
  if (at >= 0 && at < size) return at;
  stop(status, STATUS_INDEX, step, at, size);
  return -1;
}

// The thread's number in the grid.
DEVICE i64 thread_number() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }

// Whether all of `count` indices are in range, before something is overwritten.
template <class I>
DEVICE void check_indices(u64* status, u64 step, const I* index, i64 count, i64 size) {
  const i64 i = thread_number();
  if (i < count) checked(status, step, index, i, size);
}

// out[o, m, i] = x[o, index[m], i]; `inner` is in units of T, which only moves.
template <class T, class I>
DEVICE void take(u64* status, u64 step, const T* x, const I* index, T* out, i64 outer, i64 size,
                 i64 count, i64 inner) {
  const i64 n = thread_number();
  if (n >= outer * count * inner) return;
  const i64 line = n / inner;
  const i64 at = checked(status, step, index, line % count, size);
  if (at >= 0) out[n] = x[(line / count * size + at) * inner + n % inner];
}

// Lists the places of each index, in scratch memory: `starts` (size + 1), `cursors` (size), then
// `places` and `sorted` (count). First of four: no list has begun.
DEVICE void lists_clear(i32* starts, i64 size) {
  const i64 i = thread_number();
  if (i <= size) starts[i] = 0;
}

// Counts each index.
template <class I>
DEVICE void lists_count(u64* status, u64 step, const I* index, i32* starts, i64 count, i64 size) {
  const i64 i = thread_number();
  if (i >= count) return;
  const i64 at = checked(status, step, index, i, size);
  if (at >= 0) atomicAdd(&starts[at + 1], 1);
}

// Counts to beginnings; one block.
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

// Puts each place in the list of its index, in any order.
template <class I>
DEVICE void lists_fill(const I* index, i32* starts, i64 count, i64 size) {
  const i64 i = thread_number();
  if (i >= count) return;
  i32* cursors = starts + size + 1;
  i32* places = cursors + size;
  places[atomicAdd(&cursors[index[i]], 1)] = (i32)i;
}

// Sorts each list: a block for each index. So what is added up is added in the order of the places.
DEVICE void lists_sort(i32* starts, i64 count, i64 size) {
  const i64 at = blockIdx.x;
  const i32 from = starts[at], to = starts[at + 1];
  const i32* places = starts + 2 * size + 1;
  i32* sorted = starts + 2 * size + 1 + count;
  for (i32 i = from + threadIdx.x; i < to; i += blockDim.x) {
    const i32 mine = places[i];
    i32 rank = 0;
    for (i32 j = from; j < to; j++) rank += places[j] < mine;
    sorted[from + rank] = mine;
  }
}

// out[o, at, i] += Σ x[o, m, i] over the places m of each index `at`; a block for 256 columns of
// one row.
template <class T>
DEVICE void add_lists(const i32* starts, const T* x, T* out, i64 outer, i64 size, i64 count,
                      i64 inner) {
  const i64 tiles = (inner + 255) / 256;
  const i64 column = blockIdx.x % tiles * 256 + threadIdx.x, row = blockIdx.x / tiles;
  const i64 at = row % size, o = row / size;
  const i32 from = starts[at], to = starts[at + 1];
  if (from == to || column >= inner) return;
  const i32* sorted = starts + 2 * size + 1 + count;
  T* target = out + row * inner + column;
  typedef reduce_sum<Held<T>> Fold;
  typename Fold::type sum = Fold::of(get(target), 0);
  for (i32 i = from; i < to; i++) {
    const T* source = x + (o * count + sorted[i]) * inner + column;
    sum = Fold::join(sum, Fold::of(get(source), 0));
  }
  put(target, (Held<T>)sum);
}
