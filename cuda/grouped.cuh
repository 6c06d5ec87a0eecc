// Products of groups of rows or of terms: a block of 256 threads for each tile of 32 by 32 of the
// result; operands pass through shared memory.

struct Grouped {
  i64 groups, rows, terms, columns;
  // Strides in elements: of a by row and by term; of b by group, by term and by column.
  i64 a[2], b[3];
};

const int TILE = 32;

DEVICE i64 tiles(i64 n) { return (n + TILE - 1) / TILE; }

// The rows, columns and terms of a tile, of which there may be none.
struct Part {
  i64 rows, columns, terms;
};

// y[r,c] = Σ a[r,t] b[t,c] of one tile; rows of y are `pitch` elements apart.
template <class T>
DEVICE void tile_product(const Part& part, const i64* sa, const T* a, const i64* sb, const T* b,
                         T* y, i64 pitch) {
  __shared__ Sum<T> left[TILE][TILE + 1], right[TILE][TILE + 1];
  const int column = threadIdx.x % TILE, first = threadIdx.x / TILE, step = 256 / TILE;
  Sum<T> sums[TILE / (256 / TILE)] = {};
  for (i64 start = 0; start < part.terms; start += TILE) {
    for (int row = first; row < TILE; row += step) {
      const bool in_a = row < part.rows && start + column < part.terms;
      const bool in_b = start + row < part.terms && column < part.columns;
      left[row][column] = in_a ? (Sum<T>)get(a + row * sa[0] + (start + column) * sa[1]) : 0;
      right[row][column] = in_b ? (Sum<T>)get(b + (start + row) * sb[0] + column * sb[1]) : 0;
    }
    __syncthreads();
    for (int term = 0; term < TILE; term++) {
      for (int i = 0, row = first; row < TILE; row += step, i++) {
        sums[i] += left[row][term] * right[term][column];
      }
    }
    __syncthreads();
  }
  for (int i = 0, row = first; row < TILE; row += step, i++) {
    if (row < part.rows && column < part.columns) put(y + row * pitch + column, (Held<T>)sums[i]);
  }
}

// The end, within `extent`, of the group that starts at `start`.
template <class E>
DEVICE i64 end_of(E end, i64 start, i64 extent) {
  const i64 within = (i64)end < extent ? (i64)end : extent;
  return within > start ? within : start;
}

// Multiplies each group of rows of a by its matrix of b; the rows of no group are 0. A block finds
// its tile by counting those of the groups before it.
template <class T, class E>
DEVICE void grouped_rows(const Grouped& g, const T* a, const T* b, const E* ends, T* y) {
  const i64 across = tiles(g.columns), left = blockIdx.x % across * TILE;
  i64 tile = blockIdx.x / across, start = 0, end = 0, group = 0;
  for (; group < g.groups; group++, start = end) {
    end = end_of(ends[group], start, g.rows);
    if (tile < tiles(end - start)) break;
    tile -= tiles(end - start);
  }
  const bool in_group = group < g.groups;
  const i64 row = start + tile * TILE, after = in_group ? end : g.rows;
  if (row >= after) return;
  const Part part{after - row, g.columns - left, in_group ? g.terms : 0};
  tile_product(part, g.a, a + row * g.a[0], g.b + 1, b + group * g.b[0] + left * g.b[2],
               y + row * g.columns + left, g.columns);
}

// One product for each group of terms.
template <class T, class E>
DEVICE void grouped_terms(const Grouped& g, const T* a, const T* b, const E* ends, T* y) {
  const i64 across = tiles(g.columns), down = tiles(g.rows);
  const i64 left = blockIdx.x % across * TILE, top = blockIdx.x / across % down * TILE;
  const i64 group = blockIdx.x / across / down;
  i64 start = 0, end = 0;
  for (i64 i = 0; i <= group; i++) {
    start = end;
    end = end_of(ends[i], start, g.terms);
  }
  const Part part{g.rows - top, g.columns - left, end - start};
  tile_product(part, g.a, a + top * g.a[0] + start * g.a[1], g.b + 1,
               b + start * g.b[1] + left * g.b[2], y + (group * g.rows + top) * g.columns + left,
               g.columns);
}
