// Windows over `[n, c, s…]`: pooling and convolution, one thread or block for each element of the
// result. Missing spatial dimensions are leading ones.

struct Windows {
  i64 input[3], output[3], kernel[3], stride[3], padding[3], dilation[3];
};

// A convolution: images, groups, and channels of the input and of the output in a group.
struct Conv {
  Windows windows;
  i64 images, groups, channels, filters;
};

DEVICE i64 volume(const i64 (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

struct Point {
  i64 at[3];
};
DEVICE Point point(i64 flat, const i64 (&sizes)[3]) {
  return Point{{flat / sizes[2] / sizes[1], flat / sizes[2] % sizes[1], flat % sizes[2]}};
}

// The element of an input plane that a tap meets at a pixel of the output; -1 in the padding.
DEVICE i64 met(const Windows& w, const Point& pixel, const Point& tap) {
  i64 flat = 0;
  for (int d = 0; d < 3; d++) {
    const i64 i = pixel.at[d] * w.stride[d] + tap.at[d] * w.dilation[d] - w.padding[d];
    if (i < 0 || i >= w.input[d]) return -1;
    flat = flat * w.input[d] + i;
  }
  return flat;
}

// The pixel of the output at which a tap meets an element of the input; -1 if there is none.
DEVICE i64 meeting(const Windows& w, const Point& element, const Point& tap) {
  i64 flat = 0;
  for (int d = 0; d < 3; d++) {
    const i64 i = element.at[d] + w.padding[d] - tap.at[d] * w.dilation[d];
    if (i < 0 || i % w.stride[d] != 0 || i / w.stride[d] >= w.output[d]) return -1;
    flat = flat * w.output[d] + i / w.stride[d];
  }
  return flat;
}

template <class T>
using Sum = typename reduce_sum<Held<T>>::type;

// y[n,o,t] = Σ x[n,c,…] w[o,c,k]
template <class T>
DEVICE void conv(const Conv& c, const T* x, const T* w, T* y) {
  const i64 i = thread_number(), pixels = volume(c.windows.output);
  if (i >= c.images * c.groups * c.filters * pixels) return;
  const i64 taps = volume(c.windows.kernel), plane = volume(c.windows.input);
  const i64 filter = i / pixels % (c.groups * c.filters),
            image = i / pixels / (c.groups * c.filters);
  const Point pixel = point(i % pixels, c.windows.output);
  Sum<T> sum = 0;
  for (i64 channel = 0; channel < c.channels; channel++) {
    const T* from = x + ((image * c.groups + filter / c.filters) * c.channels + channel) * plane;
    const T* weights = w + (filter * c.channels + channel) * taps;
    for (i64 tap = 0; tap < taps; tap++) {
      const i64 at = met(c.windows, pixel, point(tap, c.windows.kernel));
      if (at >= 0) sum += (Sum<T>)get(from + at) * (Sum<T>)get(weights + tap);
    }
  }
  put(y + i, (Held<T>)sum);
}

// dx[n,c,s] = Σ dy[n,o,t] w[o,c,k]
template <class T>
DEVICE void conv_grad_input(const Conv& c, const T* dy, const T* w, T* dx) {
  const i64 i = thread_number(), plane = volume(c.windows.input);
  const i64 inputs = c.groups * c.channels;
  if (i >= c.images * inputs * plane) return;
  const i64 taps = volume(c.windows.kernel), pixels = volume(c.windows.output);
  const i64 channel = i / plane % inputs, image = i / plane / inputs;
  const i64 group = channel / c.channels;
  const Point element = point(i % plane, c.windows.input);
  Sum<T> sum = 0;
  for (i64 n = 0; n < c.filters; n++) {
    const i64 filter = group * c.filters + n;
    const T* from = dy + (image * c.groups * c.filters + filter) * pixels;
    const T* weights = w + (filter * c.channels + channel % c.channels) * taps;
    for (i64 tap = 0; tap < taps; tap++) {
      const i64 at = meeting(c.windows, element, point(tap, c.windows.kernel));
      if (at >= 0) sum += (Sum<T>)get(from + at) * (Sum<T>)get(weights + tap);
    }
  }
  put(dx + i, (Held<T>)sum);
}

// dw[o,c,k] = Σ dy[n,o,t] x[n,c,…]: a block for each element of dw.
template <class T>
DEVICE void conv_grad_weight(const Conv& c, const T* dy, const T* x, T* dw) {
  __shared__ Sum<T> sums[256];
  const i64 i = blockIdx.x;
  const i64 taps = volume(c.windows.kernel), plane = volume(c.windows.input);
  const i64 pixels = volume(c.windows.output);
  const i64 channel = i / taps % c.channels, filter = i / taps / c.channels;
  const Point tap = point(i % taps, c.windows.kernel);
  Sum<T> sum = 0;
  for (i64 n = threadIdx.x; n < c.images * pixels; n += blockDim.x) {
    const i64 image = n / pixels, pixel = n % pixels;
    const i64 at = met(c.windows, point(pixel, c.windows.output), tap);
    if (at < 0) continue;
    const i64 plane_of_x = (image * c.groups + filter / c.filters) * c.channels + channel;
    const i64 plane_of_y = image * c.groups * c.filters + filter;
    sum += (Sum<T>)get(x + plane_of_x * plane + at) * (Sum<T>)get(dy + plane_of_y * pixels + pixel);
  }
  sums[threadIdx.x] = sum;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) put(dw + i, (Held<T>)sums[0]);
}

template <class T>
DEVICE void sum_pool(const Windows& w, i64 planes, const T* x, T* y) {
  const i64 i = thread_number(), pixels = volume(w.output);
  if (i >= planes * pixels) return;
  const T* from = x + i / pixels * volume(w.input);
  const Point pixel = point(i % pixels, w.output);
  Sum<T> sum = 0;
  for (i64 tap = 0; tap < volume(w.kernel); tap++) {
    const i64 at = met(w, pixel, point(tap, w.kernel));
    if (at >= 0) sum += (Sum<T>)get(from + at);
  }
  put(y + i, (Held<T>)sum);
}

template <class T>
DEVICE void sum_pool_grad(const Windows& w, i64 planes, const T* dy, T* dx) {
  const i64 i = thread_number(), plane = volume(w.input);
  if (i >= planes * plane) return;
  const T* from = dy + i / plane * volume(w.output);
  const Point element = point(i % plane, w.input);
  Sum<T> sum = 0;
  for (i64 tap = 0; tap < volume(w.kernel); tap++) {
    const i64 at = meeting(w, element, point(tap, w.kernel));
    if (at >= 0) sum += (Sum<T>)get(from + at);
  }
  put(dx + i, (Held<T>)sum);
}

// The position in an input plane of a pixel's first tap that is not before the first element.
DEVICE i64 start(const Windows& w, const Point& pixel) {
  u64 flat = 0;
  for (int d = 0; d < 3; d++) {
    i64 i = pixel.at[d] * w.stride[d] - w.padding[d];
    if (i < 0) i += (w.dilation[d] - 1 - i) / w.dilation[d] * w.dilation[d];
    flat = flat * (u64)w.input[d] + (u64)i;
  }
  return (i64)flat;
}

// The first of the largest elements, or the last NaN; for a window of padding only, the least
// number and the window's start.
template <class T>
DEVICE void max_pool(const Windows& w, i64 planes, const T* x, T* y, i64* index) {
  const i64 i = thread_number(), pixels = volume(w.output);
  if (i >= planes * pixels) return;
  const T* from = x + i / pixels * volume(w.input);
  const Point pixel = point(i % pixels, w.output);
  Held<T> best = lowest<Held<T>>();
  i64 where = -1;
  for (i64 tap = 0; tap < volume(w.kernel); tap++) {
    const i64 at = met(w, pixel, point(tap, w.kernel));
    if (at < 0) continue;
    const Held<T> value = get(from + at);
    if (where >= 0 && !(value > best) && value == value) continue;
    best = value, where = at;
  }
  put(y + i, best);
  index[i] = where < 0 ? start(w, pixel) : where;
}

// Adds dy at the indices, which are valid, in order: a block for each plane. dx is 0 before.
template <class T, class S>
DEVICE void max_pool_grad(i64 pixels, i64 plane, const T* dy, const i64* index, S* dx) {
  dy += (i64)blockIdx.x * pixels;
  index += (i64)blockIdx.x * pixels;
  dx += (i64)blockIdx.x * plane;
  in_order(
      pixels, [&](i64 pixel) { return index[pixel]; },
      [&](i64 pixel, i64 at) { put(dx + at, get(dx + at) + get(dy + pixel)); });
}
