// The C++ header: results against plain loops, errors as exceptions, handles as values.
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

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

// Says all of `parts`.
template <class F>
static void says(std::initializer_list<const char*> parts, F&& call) {
  try {
    call();
  } catch (const ta::Error& error) {
    const std::string text = error.what();
    for (const char* part : parts) EXPECT(text.find(part) != std::string::npos);
    return;
  }
  EXPECT(!"an exception");
}

static void mismatches(const ta::Context& context) {
  const auto x = ta::zeros(context, {2, 3}), y = ta::zeros(context, {4, 5});
  const auto n = ta::zeros(context, {2, 3}, ta::DType::I64);
  says({"f32", "f64"}, [&] { x.read<double>(); });
  says({"i64", "f32"}, [&] { n.item<float>(); });
  says({"6 elements"}, [&] { x.item<float>(); });
  says({"f32", "f8e8m0fnu"},
       [&] { ta::zeros(context, {1}, ta::DType::F8E8M0FNU).write<float>({1}); });
  says({"add", "[2, 3]", "[4, 5]"}, [&] { x + y; });
  says({"matmul", "2x3", "4x5"}, [&] { matmul(x, y); });
  says({"matmul", "f32", "i64"}, [&] { matmul(x, n.t()); });
  says({"_softmax", "argument 1", "a tensor of f32 [4, 5]"},
       [&] { ta::call("aten::_softmax", {x, y, false}); });
  says({"cat", "list of tensors", "a tensor of f32 [2, 3]"},
       [&] { ta::call("aten::cat", {x, 0}); });
}

// Numbers of any kind compile nothing again, and whole ones leave integers integers.
static void numbers(const ta::Context& context) {
  const auto x = ta::tensor<float>(context, {1, 2}, {2});
  const auto n = ta::tensor<std::int64_t>(context, {1, 2}, {2});
  const auto compiled = [&](int a, long b, float c) {
    context.reset_metrics();
    auto y = ta::call("aten::add.Tensor", {x * a, x, b}) / c;
    y -= a;
    const float first = (static_cast<float>(a) + static_cast<float>(b)) / c - static_cast<float>(a);
    expect(y.slice(0, 0, 1), {first});
    return context.cache_stats().compiles;
  };
  compiled(3, 5, 2.0f);
  EXPECT(compiled(7, 11, 4.0f) == 0 && compiled(-7, 0, 0.5f) == 0);
  EXPECT(((n * 3 - 1).read<std::int64_t>() == std::vector<std::int64_t>{2, 5}));
  EXPECT((10 - pow(n, 2)).dtype() == ta::DType::I64 && (n / 2).dtype() == ta::DType::F32);
  expect(n * 0.5, {0.5f, 1});
  // What an operator has to know may be said either way.
  const auto square = ta::tensor<float>(context, {1, 2, 3, 4}, {2, 2});
  expect(ta::call("aten::cumsum", {square, ta::Number{1}}), {1, 3, 3, 7});
  expect(ta::call("aten::sum.dim_IntList", {square, ta::Ints{0}, ta::Flag{true}}), {4, 6});
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
  values.clear();
  float copied[2] = {0, 0};
  x.copy_async(
      copied, sizeof copied,
      [&] {
        const std::lock_guard<std::mutex> held(lock);
        values.assign(copied, copied + 2);
        told.notify_one();
      },
      [](const ta::Error&) { EXPECT(!"a copy"); });
  x += 1.0;
  told.wait(held, [&] { return !values.empty(); });
  EXPECT((values == std::vector<float>{4, 7}));
  expect(x, {5, 8});
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
  throws(TORCHACC_NOT_FOUND,
         [&] { graph.run_on_openxla(context, {w, 0.5}, "/nowhere/plugin.so"); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::Graph("%0: f32[2] = nothing()\nreturn %0"); });
  const std::uint64_t number = ta::Graph::capture_begin(context);
  const auto captured = ta::Graph::capture(context, number, {w}, {w * 2.0 + w});
  expect(captured(context, {w})[0], {3, 6, 9, 12, 15, 18});
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::Graph::capture(context, number, {w, w}, {w}); });
  const auto kept = clone(w);
  const auto in_place = captured.apply_into(context, {kept}, {kept});
  EXPECT(in_place.empty());
  expect(kept, {3, 6, 9, 12, 15, 18});
  throws(TORCHACC_INVALID_ARGUMENT, [&] { captured.apply_into(context, {w}, {}); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { captured.apply_into(context, {w}, {n}); });
  context.seed(3);
  const std::uint64_t drawing = ta::Graph::capture_begin(context), each = std::uint64_t{1} << 32;
  const auto noise = uniform(context, {6}, 2, 3);
  const auto drawn = ta::Graph::capture_random(context, drawing, {}, {noise}, {{3, 0, each}});
  const auto state = ta::tensor<std::int64_t>(context, {3, 0}, {2});
  const auto drawn_again = drawn(context, {state});
  EXPECT(drawn_again[0].read<float>() == noise.read<float>());
  EXPECT(drawn_again[1].read<std::int64_t>()[1] == static_cast<std::int64_t>(each));
}

static bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

static void elements(const ta::Context& context) {
  static_assert(ta::dtype_of<long long>() == ta::DType::I64);
  static_assert(ta::dtype_of<unsigned long long>() == ta::DType::U64);
  static_assert(ta::dtype_of<long>() == (sizeof(long) == 8 ? ta::DType::I64 : ta::DType::I32));
  static_assert(ta::dtype_of<signed char>() == ta::DType::I8);
  static_assert(static_cast<torchacc_dtype>(ta::DType::F8E8M0FNU) == TORCHACC_F8E8M0FNU);
  const auto longs = ta::tensor<long long>(context, {1, -2}, {2});
  EXPECT((longs.read<std::int64_t>() == std::vector<std::int64_t>{1, -2}));
  const std::complex<float> i{0, 1};
  EXPECT(ta::scalar(context, i).item<std::complex<float>>() == i);
  // What C++ has no type for, as bytes: 1.5 and -2.
  const std::uint16_t halves[2] = {0x3e00, 0xc000};
  const auto half = ta::tensor(context, ta::DType::F16, halves, sizeof halves, {2});
  expect(to(half, ta::DType::F32), {1.5f, -2});
  std::uint16_t got[2] = {};
  (half + half).read(got, sizeof got);
  EXPECT(got[0] == 0x4200 && got[1] == 0xc400);
  half.write(got, sizeof got);
  expect(to(half, ta::DType::F32), {3, -4});
  throws(TORCHACC_INVALID_ARGUMENT, [&] { half.read<std::uint16_t>(); });
}

static void buffers_and_views(const ta::Context& context) {
  const auto x = ta::tensor<float>(context, {1, 2, 3, 4, 5, 6}, {2, 3});
  const ta::View whole = x.t().view();
  EXPECT((whole.sizes == ta::Ints{3, 2}) && (whole.strides == ta::Ints{1, 3}) &&
         whole.dtype == ta::DType::F32 && whole.offset == 0 && whole.buffer.nbytes() == 24);
  expect(ta::Tensor({whole.buffer, ta::DType::F32, {2}, {2}, 1}), {2, 4});
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::Tensor({whole.buffer, ta::DType::F32, {9}, {1}}); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::Tensor({whole.buffer, ta::DType::F32, {2}, {}}); });
  throws(TORCHACC_INVALID_ARGUMENT, [] { ta::Tensor(ta::View{}); });

  // Into a column of a new buffer; the other stays.
  const ta::Buffer wide = ta::buffer(context, 48);
  const ta::View column{wide, ta::DType::F32, {3, 2}, {4, 2}, 1};
  ta::Op("aten::neg").record(context, {whole}, {column});
  wide.request();
  EXPECT((wide.read<float>() == std::vector<float>{0, -1, 0, -4, 0, -2, 0, -5, 0, -3, 0, -6}));
  EXPECT(wide.is_ready() && wide && !ta::Buffer());
  wide.resize(8);
  float pair[2] = {};
  context.cut();
  wide.read_after_cut(0, pair, sizeof pair);
  EXPECT(pair[0] == 0 && pair[1] == -1);
  wide.write(std::vector<float>{7, 8});
  wide.read(4, pair, 4);
  EXPECT(pair[0] == 8);
  throws(TORCHACC_INVALID_ARGUMENT, [&] { wide.write(std::vector<float>{7}); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { wide.read(6, pair, 4); });
  throws(TORCHACC_INVALID_ARGUMENT, [] { ta::Buffer().resize(4); });
}

static void memory_of_others(const ta::Context& context) {
  alignas(64) static float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  auto owner = std::make_shared<int>(1);
  auto every_other = ta::borrow(context, ta::DType::F32, {2, 2}, {4, 2}, data, sizeof data, owner);
  EXPECT(owner.use_count() == 2);
  expect(every_other, {1, 3, 5, 7});
  context.sync();
  every_other = ta::Tensor();
  EXPECT(owner.use_count() == 1);
  throws(TORCHACC_INVALID_ARGUMENT,
         [&] { ta::borrow(context, ta::DType::F32, {9}, {}, data, sizeof data, owner); });
  throws(TORCHACC_INVALID_ARGUMENT,
         [&] { ta::borrow(context, ta::DType::F32, {2}, {1, 1}, data, sizeof data, owner); });
  EXPECT(owner.use_count() == 1);
  const auto x = ta::tensor<float>(context, {1, 2, 3, 4}, {2, 2});
  expect(ta::from_dlpack(context, x.t().to_dlpack()), {1, 3, 2, 4});
  expect(ta::from_dlpack(ta::Context("reference"), x.to_dlpack(true)), {1, 2, 3, 4});
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::from_dlpack(context, nullptr); });
}

static void arguments(const ta::Context& context) {
  const auto x = ta::tensor<float>(context, {1, 2, 3, 4}, {2, 2});
  const auto two = ta::tensor<std::int64_t>(context, {1, 0}, {2});
  // A list with a gap; lists of views.
  expect(ta::call("aten::index.Tensor", {x, std::vector<ta::Tensor>{{}, two}}), {2, 1, 4, 3});
  expect(ta::call("aten::cat", {std::vector<ta::View>{x.view(), x.t().view()}, 1}),
         {1, 2, 1, 3, 3, 4, 2, 4});
  // A constant is part of what is compiled, a number and a flag are not.
  const auto compiled = [&](const ta::Arg& number) {
    context.reset_metrics();
    expect(ta::call("aten::mul.Scalar", {x, number}).slice(0, 0, 1), {3, 6});
    context.sync();
    return context.cache_stats().compiles;
  };
  compiled(ta::Number{3});
  EXPECT(compiled(ta::Number{3}) == 0 && compiled(ta::Constant{3}) == 1);
  expect(ta::call("aten::mul.Scalar", {x, ta::Flag{true}}), {1, 2, 3, 4});

  EXPECT(ta::Op("aten::add.Tensor").name() == "aten::add");
  std::set<std::string> names;
  for (torchacc_op number = 0; number < ta::Op::count(); ++number) {
    const ta::Op op(number);
    names.insert(op.name());
    // PyTorch's are described there.
    EXPECT(has(op.signature(), "\"doc\": \"") || op.name().find("aten::") == 0);
  }
  EXPECT(names.size() > 300 && names.count("torchacc::adamw") == 1);
  EXPECT(has(ta::Op("torchacc::adamw").signature(), "\"arguments\""));
  throws(TORCHACC_NOT_FOUND, [] { ta::Op(ta::Op::count()).signature(); });
  EXPECT(ta::Op::facts("aten::addmm_") == TORCHACC_FACT_ONE_FLOAT);
  EXPECT(ta::Op::facts("aten::bincount") == TORCHACC_FACT_SHAPED_BY_VALUES);
  EXPECT(ta::Op::facts("aten::gelu") == 0 && ta::Op::facts("none") == 0);
  const auto types = ta::Op("aten::max.dim").infer(context, {x, 0, false}, 2);
  EXPECT(types[0].dtype == ta::DType::F32 && types[1].dtype == ta::DType::I64 &&
         (types[0].sizes == ta::Ints{2}) && types[1].sizes == types[0].sizes);
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::Op("aten::max.dim").infer(context, {x}, 1); });
}

static void own_operators(const ta::Context& context) {
  ta::HostOp definition;
  definition.name = "mine::pick";
  definition.key = "mine::pick/1";
  // x · number + integer, plus the elements of a list; by columns of `order`.
  definition.function = [](const ta::Given& args, const std::vector<ta::Array>& outs) {
    const ta::Array x = args.array(0);
    const ta::Ints order = args.ints(3);
    if (args.text(4) != "go") throw std::runtime_error("no \"go\"");
    if (!args.is_none(5)) throw ta::Error(TORCHACC_UNSUPPORTED, "a sixth argument");
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      float value =
          x.data<float>()[order[static_cast<std::size_t>(i)]] * static_cast<float>(args.number(1)) +
          static_cast<float>(args.integer(2));
      for (const ta::Array& more : args.arrays(6))
        if (more) value += more.data<float>()[i];
      outs[0].data<float>()[i] = value;
    }
  };
  definition.shape = [](const ta::Given& args) {
    const ta::Array x = args.array(0);
    return std::vector<ta::Type>{{x.dtype(), x.sizes()}};
  };
  const ta::Op pick = ta::register_op(definition);
  EXPECT(ta::register_op(definition).number() == pick.number());
  const auto x = ta::tensor<float>(context, {1, 2, 3}, {3});
  const std::vector<ta::Tensor> list{x, {}};
  const ta::Ints order{2, 0, 1};
  context.reset_metrics();
  expect(pick({x, 2.0, 5, order, "go", {}, list}), {12, 9, 12});
  EXPECT(has(context.host_calls(), "mine::pick"));
  // What it throws comes back when the result is read; what its shape rule throws, at once.
  throws(TORCHACC_OPERATOR_ERROR,
         [&] { pick({x, 2.0, 5, order, "stop", {}, list}).read<float>(); });
  throws(TORCHACC_UNSUPPORTED, [&] { pick({x, 2.0, 5, order, "go", 1, list}).read<float>(); });
  throws(TORCHACC_INVALID_ARGUMENT,
         [&] { pick({x, "two", 5, order, "go", {}, list}).read<float>(); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { pick({2.0, x}); });
  throws(TORCHACC_INVALID_ARGUMENT, [&] { pick(context, {x}, 2); });
  try {
    context.sync();
  } catch (const ta::Error&) {
    // What had been read was told.
  }
  definition.key = "mine::pick/2";
  definition.function = nullptr;
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::register_op(definition); });
  definition.cuda_source = "__device__ void pick() {}";
  definition.cuda_entry = "pick";
  definition.cuda_block = 32;
  EXPECT(ta::register_op(definition).number() != pick.number());
}

// What it did and why, and who is told.
static void reports(const char* backend) {
  std::atomic<int> lines{0}, warnings{0}, logged{0}, dropped{0};
  struct Counted {
    explicit Counted(std::atomic<int>& count) : count(&count) {}
    ~Counted() { ++*count; }
    std::atomic<int>* count;
  };
  {
    torchacc_options options{};
    options.backend = ta::to_str(backend);
    const auto owner = std::make_shared<Counted>(dropped);
    const ta::Context context(
        options, [&, owner](torchacc_log_level level, std::string_view text, std::uint64_t) {
          EXPECT(!text.empty());
          if (level == TORCHACC_LOG_WARNING) ++logged;
        });
    std::uint64_t place = 0;
    context.set_locator([&] { return ++place; });
    context.set_observer(
        [&](std::uint64_t site) {
          ++lines;
          return site < 100 ? std::uint64_t{7} : site;
        },
        [&](std::string_view text, std::uint64_t site) {
          EXPECT(!text.empty() && site == 7);
          ++warnings;
        });
    throws(TORCHACC_INVALID_ARGUMENT, [&] { context.set_observer(nullptr, nullptr); });
    throws(TORCHACC_INVALID_ARGUMENT, [&] { context.set_locator(nullptr); });
    context.set_recompile_limit(1);
    context.start_profile();
    ta::Ints sizes;
    const auto run = [&] {
      sizes.push_back(2);
      return ta::call("aten::neg", {ta::zeros(context, sizes)}).read<float>();
    };
    for (int i = 0; i < 3; ++i) run();
    EXPECT(warnings == 1 && logged == 1 && lines > 0);
    EXPECT(has(context.stop_profile(), "traceEvents"));
    context.start_profile();
    ta::call("aten::neg", {ta::zeros(context, sizes)}).read<float>();
    int spans = 0;
    EXPECT(context.visit_profile([&](const torchacc_span&) { ++spans; }) == 0 && spans > 0);
    EXPECT(context.busy_ns() > 0);
    EXPECT(has(context.explain(), "aten::neg") && !context.last_program().empty());
    EXPECT(has(context.memory_report(), "\"arena_bytes\"") && !context.progress().empty());
    EXPECT(has(ta::Graph::last(context).text(), "return %"));
    context.set_strict(TORCHACC_STRICT_RECOMPILES);
    try {
      run();
      EXPECT(!"an exception");
    } catch (const ta::Error& error) {
      EXPECT(error.code() == TORCHACC_STRICT && error.site() == 7);
    }
    throws(TORCHACC_INVALID_ARGUMENT, [&] { context.set_strict(99); });
    throws(TORCHACC_NOT_FOUND, [&] { ta::Graph::last(ta::Context(backend)); });
    EXPECT(dropped == 0);
  }
  EXPECT(dropped == 1);
  EXPECT(has(ta::devices(), "\"cpu\"") && !ta::version().empty());
}

static void archives(const ta::Context& context, const std::string& path) {
  const auto x = ta::tensor<float>(context, {1, 2}, {2});
  ta::save(path, {x, x * 2.0}, {{"step", "12"}, {"note", ""}}, {"b", "a"});
  const ta::Archive archive(context, path);
  EXPECT(archive.size() == 2 && archive[0].name() == "a" && !archive[2]);
  expect(archive.find("b"), {1, 2});
  EXPECT(!archive.find("c") && archive.text("step") == "12" && archive.text("note") == "" &&
         !archive.text("nothing"));
  EXPECT(std::remove(path.c_str()) == 0);
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::save(path, {x}, {}, {"b", "a"}); });
}

static void device_memory(const char* backend) {
  int live = 0, freed = 0;
  {
    const ta::Context context(backend);
    EXPECT(context.device().device_type == 1 && context.device().is_host);
    context.set_allocator(
        [&](const torchacc_device&, std::size_t nbytes) {
          ++live;
          return std::aligned_alloc(64, (nbytes + 63) / 64 * 64);
        },
        [&](const torchacc_device&, void* memory, std::size_t) {
          --live, ++freed;
          std::free(memory);
        });
    throws(TORCHACC_INVALID_ARGUMENT, [&] { context.set_allocator(nullptr, nullptr); });
    const auto x = ta::tensor<float>(context, {1, 2}, {2});
    EXPECT(live > 0);
    const ta::Buffer buffer = x.view().buffer;
    buffer.fill([](const torchacc_device&, void* memory, std::size_t nbytes) {
      EXPECT(nbytes == 8);
      static_cast<float*>(memory)[0] = static_cast<float*>(memory)[1] = 5;
    });
    expect(x + 1.0, {6, 6});
    float seen = 0;
    buffer.look([&](const torchacc_device&, void* memory, std::size_t) {
      seen = static_cast<float*>(memory)[1];
    });
    EXPECT(seen == 5);
    throws(TORCHACC_OPERATOR_ERROR, [&] {
      buffer.look(
          [](const torchacc_device&, void*, std::size_t) { throw std::runtime_error("no"); });
    });
    context.sync();
  }
  EXPECT(live == 0 && freed > 0);
}

static void changing_integers(const ta::Context& context) {
  const auto x = ta::zeros(context, {2});
  const auto changes = [&](auto program, std::initializer_list<std::int64_t> integers) {
    std::vector<bool> said;
    for (const std::int64_t integer : integers) {
      context.cut();
      const ta::Tensor y = program();
      said.push_back(context.integer_changes(7, integer));
    }
    return said;
  };
  const auto sum = [&] { return x + x; };
  EXPECT(changes(sum, {5, 5, 6, 5}) == std::vector<bool>({false, false, true, true}));
  // Another program has learnt nothing.
  EXPECT(changes([&] { return x * x; }, {5, 5, 5, 5}) == std::vector<bool>(4, false));
  // Lists of other lengths, the last one of which is recorded only.
  const auto y = ta::tensor<float>(context, {1, 2, 3}, {3});
  for (const std::size_t length : {2, 3, 4, 5}) {
    context.cut();
    std::vector<ta::Tensor> list(length, y);
    list.push_back(x + x);
    const std::size_t stored = ta::list_changes(context, 8, list);
    EXPECT(stored == (length < 4 ? 0 : length));
    throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::concatenate(context, list, {11}); });
  }
  expect(ta::concatenate(context, {y, x, y}, {2, 4}), {1, 2, 3, 0, 0, 1, 2, 3});
  throws(TORCHACC_INVALID_ARGUMENT, [&] { ta::concatenate(context, {y, y}, {7}); });
}

int main(int, char** argv) {
  for (const char* backend : {"cpu", "reference"}) {
    const ta::Context context(backend);
    gradients(context);
    arithmetic(context);
    mismatches(context);
    numbers(context);
    in_place(context);
    random_numbers(context);
    asynchronous(context);
    elements(context);
    buffers_and_views(context);
    memory_of_others(context);
    arguments(context);
    own_operators(context);
    changing_integers(context);
    reports(backend);
    device_memory(backend);
    archives(context, std::string(argv[0]) + ".archive");
    files_and_text(context, std::string(argv[0]) + ".safetensors");
    context.sync();
    EXPECT(context.metrics().find("\"compiles\"") != std::string::npos);
    EXPECT(has(ta::Context::metric_docs(), "\"name\": \"compiles\""));
    EXPECT(context.cache_stats().misses > 0);
  }
  puts("ok");
}
