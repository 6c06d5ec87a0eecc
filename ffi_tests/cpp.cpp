// The C++ header: results against plain loops, errors as exceptions, handles as values.
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "check.h"
#include "torchacc.hpp"

namespace ta = torchacc;

static void expect(const ta::Tensor& tensor, const std::vector<float>& wanted) {
  const std::vector<float> got = tensor.read<float>();
  EXPECT(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT(std::fabs(got[i] - wanted[i]) < 1e-5f);
}

template <class F>
static void throws(torchacc_code code, F&& call) {
  try {
    call();
  } catch (const ta::Error& error) {
    EXPECT(error.code() == code && error.what()[0] != 0);
    return;
  }
  EXPECT(!"an exception");
}

static void gradients(const ta::Context& context) {
  const auto x = ta::tensor<float>(context, {1, -2, 3}, {3});
  const auto w = ta::tensor<float>(context, {0.5f, 1, 2}, {3});
  const auto loss = ta::Op("aten::sum")({x * x * w});
  const auto found = ta::grad(loss, {x, w});
  expect(found[0], {1, -4, 12});
  expect(found[1], {1, 4, 9});
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::grad(loss, {x}); });
}

static void arithmetic(const ta::Context& context) {
  const auto x = ta::tensor<float>(context, {1, -2, 3, -4}, {2, 2});
  const auto y = ta::tensor<float>(context, {0.5f, 1, 2, 4}, {2, 2});
  expect(x + y, {1.5f, -1, 5, 0});
  expect(2.0 * (x - y) / 4.0, {0.25f, -1.5f, 0.5f, -4});
  expect(1.0 - x, {0, 3, -2, 5});
  expect(1.0 / y, {2, 1, 0.5f, 0.25f});
  expect(relu(matmul(x, y)), {0, 0, 0, 0});
  expect(matmul(x, y.t()), {-1.5f, -6, -2.5f, -10});
  expect(softmax(ta::zeros(context, {1, 4}), -1), {0.25f, 0.25f, 0.25f, 0.25f});
  expect(sum(x, {0}), {4, -6});
  EXPECT(std::fabs(mean(x * x).item<float>() - 7.5f) < 1e-6f);
  EXPECT(argmax(x, 1).read<std::int64_t>() == (std::vector<std::int64_t>{0, 0}));
  EXPECT(gt(x, y).read<std::uint8_t>() == (std::vector<std::uint8_t>{1, 0, 1, 0}));
  expect(ta::cat({x.slice(0, 1, 1), y}), {3, -4, 0.5f, 1, 2, 4});
  expect(to(to(x, ta::DType::F64), ta::DType::F32), {1, -2, 3, -4});
  const auto normed = ta::call("aten::native_layer_norm", {x, ta::Ints{2}, {}, {}, 0.0}, 3);
  expect(normed[0], {1, -1, 1, -1});
  expect(ta::call("add", {x, x}), {2, -4, 6, -8});
}

static void in_place(const ta::Context& context) {
  auto w = ta::lend<float>(context, std::vector<float>{1, 2, 3, 4}, {2, 2});
  const ta::Tensor same = w;
  w -= w * 0.5;
  w *= 2.0;
  expect(same, {1, 2, 3, 4});
  w.slice(1, 0, 1).write<float>({10, 30});
  expect(same, {10, 2, 30, 4});
  EXPECT(same.sizes() == (ta::Ints{2, 2}) && same.size(-1) == 2 && same.dtype() == ta::DType::F32);
  ta::Tensor none;
  EXPECT(!none);
  throws(TORCHACC_INVALID_ARGUMENT, [&] { none += w; });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { w.read<double>(); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { matmul(w, ta::zeros(w.context(), {3, 2})); });
  throws(TORCHACC_NOT_FOUND, [&] { ta::call("aten::nothing", {w}); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::Context("no such backend"); });
}

static void random_numbers(const ta::Context& context) {
  context.seed(3);
  const auto first = normal(context, {64, 64}).read<float>();
  context.seed(3);
  EXPECT(normal(context, {64, 64}).read<float>() == first);
  double mean = 0, square = 0;
  for (float x : first) mean += x, square += x * x;
  EXPECT(std::fabs(mean / 4096) < 0.1 && std::fabs(square / 4096 - 1) < 0.1);
  for (float x : uniform(context, {100}, 2, 3).read<float>()) EXPECT(x >= 2 && x < 3);
}

static void asynchronous(const ta::Context& context) {
  std::mutex lock;
  std::condition_variable told;
  std::vector<float> values;
  auto x = ta::tensor<float>(context, {1, 2}, {2}) * 3.0;
  x.read_async<float>(
      [&](std::vector<float> got) {
        const std::lock_guard<std::mutex> held(lock);
        values = std::move(got);
        told.notify_one();
      },
      [](const ta::Error&) { EXPECT(!"a value"); });
  x += 1.0;
  std::unique_lock<std::mutex> held(lock);
  told.wait(held, [&] { return !values.empty(); });
  EXPECT((values == std::vector<float>{3, 6}));
  expect(x, {4, 7});
}

static void files_and_text(const ta::Context& context, const std::string& path) {
  auto w = ta::tensor<float>(context, {1, 2, 3, 4, 5, 6}, {2, 3}).set_name("w");
  auto n = ta::scalar<std::int64_t>(context, 7).set_name("n");
  ta::save(path, {w, n});
  const auto loaded = ta::load(context, path);
  EXPECT(loaded.size() == 2 && loaded.at("n").item<std::int64_t>() == 7);
  expect(loaded.at("w"), {1, 2, 3, 4, 5, 6});
  EXPECT(std::remove(path.c_str()) == 0);
  throws(TORCHACC_NOT_FOUND, [&] { ta::load(context, path); });
  const ta::Graph graph(
      "%0: f32[2,3] = input() {index=0, type=(f32[2,3])}\n"
      "%1: f64[] = scalar() {slot=0, dtype=f64}\n"
      "%2: f32[] = cast(%1) {dtype=f32}\n"
      "%3: f32[2,3] = broadcast(%2) {sizes=[2,3]}\n"
      "%4: f32[2,3] = mul(%0, %3)\n"
      "%5: f32[2] = reduce_sum(%4) {axes=[1]}\n"
      "return %5, %0\n");
  EXPECT(ta::Graph(graph.text()).text() == graph.text());
  const auto results = graph(context, {w, 0.5});
  expect(results[0], {3, 7.5f});
  expect(results[1], {1, 2, 3, 4, 5, 6});
  throws(TORCHACC_INVALID_ARGUMENT, [&] { graph(context, {n, 0.5}); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { graph(context, {w}); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::Graph("%0: f32[2] = nothing()\nreturn %0"); });
}

int main(int, char** argv) {
  for (const char* backend : {"cpu", "reference"}) {
    const ta::Context context(backend);
    gradients(context);
    arithmetic(context);
    in_place(context);
    random_numbers(context);
    asynchronous(context);
    files_and_text(context, std::string(argv[0]) + ".safetensors");
    context.sync();
    EXPECT(context.metrics().find("\"compiles\"") != std::string::npos);
    EXPECT(context.cache_stats().misses > 0);
  }
  puts("ok");
}
