// Three ranks, each a thread with a context of its own: what they compute together, and the
// gradients by way of it, are what one process computes that has everything.
#include <pthread.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "check.h"
#include "torchacc.hpp"

namespace ta = torchacc;

enum { RANKS = 3, ROWS = 6, COLUMNS = 2, COUNT = ROWS * COLUMNS };

static pthread_barrier_t meeting;
static const ta::Array* inputs[RANKS];

// Every element of `out` is `of(rank's elements, index)`, while the other ranks' operands are
// there.
template <class F>
static void together(int rank, const ta::Array& in, const ta::Array& out, F&& of) {
  inputs[rank] = &in;
  pthread_barrier_wait(&meeting);
  const auto at = [](int r, std::int64_t i) { return inputs[r]->data<float>()[i]; };
  for (std::int64_t i = 0; i < out.numel(); ++i) out.data<float>()[i] = of(at, i);
  pthread_barrier_wait(&meeting);
}

static ta::Collectives threads(int rank) {
  using ta::Array;
  const auto reduced = [](std::int64_t how, const auto& at, std::int64_t i) {
    if (how == TORCHACC_REDUCE_MAX) return std::fmax(at(0, i), std::fmax(at(1, i), at(2, i)));
    const float sum = at(0, i) + at(1, i) + at(2, i);
    return how == TORCHACC_REDUCE_AVG ? sum / RANKS : sum;
  };
  ta::Collectives does;
  does.all_reduce = [=](std::int64_t how, const Array& in, const Array& out) {
    if (in.dtype() != ta::DType::F32) throw std::runtime_error("floats only");
    together(rank, in, out, [&](auto& at, std::int64_t i) { return reduced(how, at, i); });
  };
  does.all_gather = [=](std::int64_t, const Array& in, const Array& out) {
    const std::int64_t each = in.numel();
    together(rank, in, out, [&](auto& at, std::int64_t i) { return at(int(i / each), i % each); });
  };
  does.reduce_scatter = [=](std::int64_t how, const Array& in, const Array& out) {
    const std::int64_t from = rank * out.numel();
    together(rank, in, out, [&](auto& at, std::int64_t i) { return reduced(how, at, from + i); });
  };
  does.broadcast = [=](std::int64_t root, const Array& in, const Array& out) {
    together(rank, in, out, [&](auto& at, std::int64_t i) { return at(int(root), i); });
  };
  does.all_to_all = [=](std::int64_t, const Array& in, const Array& out) {
    const std::int64_t part = in.numel() / RANKS;
    together(rank, in, out,
             [&](auto& at, std::int64_t i) { return at(int(i / part), rank * part + i % part); });
  };
  return does;
}

static std::vector<float> numbers(int rank, int seed, int count) {
  std::vector<float> made;
  for (int i = 0; i < count; ++i) made.push_back(std::sin(1.0f + rank * 31 + seed * 7 + i * 3));
  return made;
}

static ta::Tensor total(const ta::Tensor& x) { return sum(x); }

// What a rank loses by its result.
static ta::Tensor weighted(const ta::Tensor& y, int rank) {
  const auto count = static_cast<int>(y.numel());
  return total(y * y * ta::tensor<float>(y.context(), numbers(rank, 5, count), y.sizes()));
}

using Function = std::function<ta::Tensor(const ta::Tensor& x, const ta::Communicator& ranks)>;
using Whole = std::function<ta::Tensor(const std::vector<ta::Tensor>& all, int rank)>;

struct Case {
  const char* name;
  // On each rank; and of what all ranks have, what one rank gets.
  Function ranks;
  Whole whole;
};

static std::vector<Case> cases() {
  const auto sum = [](const std::vector<ta::Tensor>& all) { return all[0] + all[1] + all[2]; };
  const auto part = [](const ta::Tensor& x, int rank) { return x.slice(0, rank * 2, 2); };
  return {
      {"all_reduce", [](auto& x, auto& c) { return all_reduce(x, c); },
       [=](auto& all, int) { return sum(all); }},
      {"all_reduce by avg", [](auto& x, auto& c) { return all_reduce(x, c, "avg"); },
       [=](auto& all, int) { return sum(all) * (1.0 / RANKS); }},
      {"all_gather", [](auto& x, auto& c) { return all_gather(x, c); },
       [](auto& all, int) { return ta::cat(all); }},
      {"reduce_scatter", [](auto& x, auto& c) { return reduce_scatter(x, c); },
       [=](auto& all, int rank) { return part(sum(all), rank); }},
      {"reduce_scatter by avg", [](auto& x, auto& c) { return reduce_scatter(x, c, "avg"); },
       [=](auto& all, int rank) { return part(sum(all) * (1.0 / RANKS), rank); }},
      {"broadcast", [](auto& x, auto& c) { return broadcast(x, 1, c); },
       [](auto& all, int) { return all[1]; }},
      {"all_to_all", [](auto& x, auto& c) { return all_to_all(x, c); },
       [=](auto& all, int rank) {
         return ta::cat({part(all[0], rank), part(all[1], rank), part(all[2], rank)});
       }},
      // One after the other, and twice the same operand.
      {"several",
       [](auto& x, auto& c) {
         const auto scattered = reduce_scatter(x, c);
         return all_gather(scattered * scattered, c) + all_reduce(x, c, "avg") * x;
       },
       [=](auto& all, int rank) {
         const auto s = sum(all);
         return s * s + s * (1.0 / RANKS) * all[static_cast<size_t>(rank)];
       }},
  };
}

static ta::Context context() {
  torchacc_options options{};
  options.num_threads = 1;
  options.cache_folder = ta::to_str("off");
  return ta::Context(options);
}

// Result, gradient and the gradient of a number made of the gradient, on each rank.
using Found = std::array<std::vector<float>, 3>;

static ta::Tensor tensor_of(const ta::Context& context, int rank) {
  return ta::tensor<float>(context, numbers(rank, 1, COUNT), {ROWS, COLUMNS});
}

// By one process that has what all ranks have.
static std::vector<Found> alone(const Case& test) {
  const ta::Context one = context();
  std::vector<ta::Tensor> xs, inner, results;
  for (int r = 0; r < RANKS; ++r) xs.push_back(tensor_of(one, r));
  for (const auto& x : xs) inner.push_back(x * x);
  ta::Tensor loss = ta::scalar<float>(one, 0), second = ta::scalar<float>(one, 0);
  for (int r = 0; r < RANKS; ++r) {
    results.push_back(test.whole(inner, r));
    loss = loss + weighted(results.back(), r);
  }
  const auto grads = ta::grad(loss, xs);
  for (int r = 0; r < RANKS; ++r) second = second + weighted(grads[size_t(r)], r + 9);
  const auto seconds = ta::grad(second, xs);
  std::vector<Found> found;
  for (size_t r = 0; r < RANKS; ++r)
    found.push_back(
        {clone(results[r]).read<float>(), grads[r].read<float>(), seconds[r].read<float>()});
  return found;
}

static void expect(const Case& test, const std::vector<float>& got,
                   const std::vector<float>& wanted) {
  EXPECT(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::fabs(got[i] - wanted[i]) < 1e-4f * (1 + std::fabs(wanted[i]))) continue;
    std::printf("%s: element %zu is %g, not %g\n", test.name, i, double(got[i]), double(wanted[i]));
    std::exit(1);
  }
}

static void one_rank(int rank, const std::vector<Case>& tests,
                     const std::vector<std::vector<Found>>& wanted) {
  const ta::Context mine = context();
  const auto ranks =
      ta::register_communicator(mine, "world", std::uint32_t(rank), RANKS, threads(rank));
  for (int step = 0; step < 3; ++step) {
    for (size_t n = 0; n < tests.size(); ++n) {
      const ta::Tensor x = tensor_of(mine, rank);
      const ta::Tensor result = tests[n].ranks(x * x, ranks);
      const ta::Tensor first = ta::grad(weighted(result, rank), {x})[0];
      const ta::Tensor second = ta::grad(weighted(first, rank + 9), {x})[0];
      mine.cut();
      // The other ranks do not wait for ever, though this one wants less.
      expect(tests[n], result.read<float>(), wanted[n][size_t(rank)][0]);
      if (rank > 0) continue;
      expect(tests[n], first.read<float>(), wanted[n][0][1]);
      expect(tests[n], second.read<float>(), wanted[n][0][2]);
    }
  }
  // Nobody but rank 0 keeps the gradient to the cut.
  for (size_t n = 0; n < tests.size(); ++n) {
    const ta::Tensor x = tensor_of(mine, rank);
    ta::Tensor first = ta::grad(weighted(tests[n].ranks(x * x, ranks), rank), {x})[0];
    if (rank > 0) first = ta::Tensor();
    mine.cut();
    if (rank == 0) expect(tests[n], first.read<float>(), wanted[n][0][1]);
    mine.sync();
  }
  // The same tensor's gradient step after step, without an update between: nothing reaches back.
  const ta::Tensor kept = tensor_of(mine, rank);
  for (int step = 0; step < 3; ++step) {
    const auto loss = weighted(all_reduce(kept, ranks), rank);
    EXPECT(ta::grad(loss, {kept})[0].read<float>().size() == COUNT);
  }
  const ta::Tensor most = all_reduce(kept, ranks, "max");
  try {
    ta::grad(total(most), {kept})[0].read<float>();
    EXPECT(!"a maximum has no gradient");
  } catch (const ta::Error& error) {
    EXPECT(error.code() == TORCHACC_UNSUPPORTED);
  }
  barrier(mine, ranks);
  try {
    barrier(mine, ta::Communicator{"moon"});
    EXPECT(!"there is no such communicator");
  } catch (const ta::Error& error) {
    EXPECT(error.code() == TORCHACC_NOT_FOUND);
  }
}

int main() {
  const std::vector<Case> tests = cases();
  std::vector<std::vector<Found>> wanted;
  for (const Case& test : tests) wanted.push_back(alone(test));
  EXPECT(pthread_barrier_init(&meeting, nullptr, RANKS) == 0);
  std::vector<std::thread> threads;
  for (int r = 0; r < RANKS; ++r)
    threads.emplace_back(one_rank, r, std::cref(tests), std::cref(wanted));
  for (std::thread& thread : threads) thread.join();
  pthread_barrier_destroy(&meeting);
  std::puts("ok");
}
