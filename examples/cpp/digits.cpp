// A convolutional network trained on the UCI digits from C++, without PyTorch:
// digits DIGITS.CSV [EPOCHS]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <torchacc.hpp>
#include <vector>

using torchacc::Context;
using torchacc::Ints;
using torchacc::Number;
using torchacc::Tensor;

constexpr std::int64_t SIDE = 8, CLASSES = 10, BATCH = 100, HELD_OUT = 297;

struct Digits {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;

  std::size_t size() const { return labels.size(); }

  // Images and labels of these rows.
  std::pair<Tensor, Tensor> batch(const Context& context, const std::size_t* rows,
                                  std::size_t count) const {
    std::vector<float> images;
    std::vector<std::int64_t> classes;
    for (const std::size_t* row = rows; row != rows + count; ++row) {
      const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(*row) * SIDE * SIDE;
      images.insert(images.end(), first, first + SIDE * SIDE);
      classes.push_back(labels[*row]);
    }
    const auto n = static_cast<std::int64_t>(count);
    return {torchacc::tensor(context, images, {n, 1, SIDE, SIDE}),
            torchacc::tensor(context, classes, {n})};
  }
};

// Rows of 64 pixels, 0 to 16, and the digit.
static Digits read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  Digits digits;
  for (std::string line; std::getline(file, line);) {
    std::stringstream row(line);
    std::vector<float> numbers;
    for (std::string cell; std::getline(row, cell, ',');) numbers.push_back(std::stof(cell));
    if (numbers.size() != SIDE * SIDE + 1)
      throw std::runtime_error(path + " has a row of " + std::to_string(numbers.size()) +
                               " numbers");
    digits.labels.push_back(static_cast<std::int64_t>(numbers.back()));
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i) digits.pixels.push_back(numbers[i] / 16);
  }
  return digits;
}

class Net {
 public:
  explicit Net(const Context& context) : context_(context) {
    layer({16, 1, 3, 3});
    layer({32, 16, 3, 3});
    layer({64, 32 * 2 * 2});
    layer({CLASSES, 64});
  }

  // The logits of images [n, 1, 8, 8].
  Tensor operator()(Tensor x) const {
    x = pooled(relu(convolved(x, 0)));
    x = pooled(relu(convolved(x, 1)));
    x = x.reshape({x.size(0), 32 * 2 * 2});
    return linear(relu(linear(x, 2)), 3);
  }

  // One step of AdamW down the gradients of a loss.
  void update(const Tensor& loss, double rate) {
    std::vector<Tensor> results = params_;
    results.insert(results.end(), means_.begin(), means_.end());
    results.insert(results.end(), squares_.begin(), squares_.end());
    const auto grads = torchacc::grad(loss, params_);
    torchacc::op("torchacc::adamw")
        .into({params_, grads, means_, squares_, static_cast<double>(++steps_), rate, 0.9, 0.999,
               0.01, 1e-8},
              results);
  }

 private:
  // Weights of variance 2 / inputs, and biases.
  void layer(const Ints& sizes) {
    const auto inputs =
        std::accumulate(sizes.begin() + 1, sizes.end(), std::int64_t{1}, std::multiplies<>());
    std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(inputs)));
    std::vector<float> weights(static_cast<std::size_t>(sizes[0] * inputs));
    std::generate(weights.begin(), weights.end(), [&] { return normal(random_); });
    params_.push_back(torchacc::tensor(context_, weights, sizes));
    params_.push_back(torchacc::zeros(context_, {sizes[0]}));
    for (auto* moments : {&means_, &squares_}) {
      moments->push_back(torchacc::zeros(context_, sizes));
      moments->push_back(torchacc::zeros(context_, {sizes[0]}));
    }
  }

  Tensor convolved(const Tensor& x, std::size_t layer) const {
    const Ints one{1, 1}, none{0, 0};
    return torchacc::call("aten::convolution", {x, params_[2 * layer], params_[2 * layer + 1], one,
                                                one, one, false, none, 1});
  }

  static Tensor pooled(const Tensor& x) {
    const Ints window{2, 2};
    return torchacc::call("aten::max_pool2d_with_indices", {x, window, window}, 2)[0];
  }

  Tensor linear(const Tensor& x, std::size_t layer) const {
    return torchacc::call("aten::addmm", {params_[2 * layer + 1], x, params_[2 * layer].t(), 1, 1});
  }

  Context context_;
  std::mt19937 random_{0};
  std::vector<Tensor> params_, means_, squares_;
  int steps_ = 0;
};

static int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIGITS.CSV [EPOCHS]\n", argv[0]);
    return 2;
  }
  const Context context;
  const Digits digits = read(argv[1]);
  const int epochs = argc > 2 ? std::stoi(argv[2]) : 10;
  std::vector<std::size_t> rows(digits.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::mt19937 random(0);
  const std::size_t train = rows.size() - HELD_OUT;
  Net net(context);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::shuffle(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(train), random);
    Tensor total = torchacc::zeros(context, {});
    std::size_t batches = 0;
    // What is alive at a cut is kept: all but the total is gone by then.
    const auto step = [&](std::size_t at) {
      const auto [images, labels] = digits.batch(context, &rows[at], BATCH);
      const Tensor logs = torchacc::log_softmax(net(images), 1);
      const Tensor loss =
          torchacc::call("aten::nll_loss_forward", {logs, labels, {}, 1, -100}, 2)[0];
      net.update(loss, 3e-3);
      total += loss;
    };
    for (std::size_t at = 0; at + BATCH <= train; at += BATCH, ++batches) {
      step(at);
      context.cut();
    }
    const auto [images, labels] = digits.batch(context, &rows[train], HELD_OUT);
    const auto guesses = torchacc::argmax(net(images), 1).read<std::int64_t>();
    const auto truth = labels.read<std::int64_t>();
    const auto right = std::inner_product(guesses.begin(), guesses.end(), truth.begin(), 0,
                                          std::plus<>(), std::equal_to<>());
    std::printf("epoch %d: loss %.4f, %.1f %% of %ld held-out digits right\n", epoch,
                total.item<float>() / static_cast<float>(batches), 100.0 * right / HELD_OUT,
                static_cast<long>(HELD_OUT));
  }
  return 0;
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
