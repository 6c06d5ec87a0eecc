// A convolutional network trained on the UCI digits by libtorch on device "acc", without Python:
// digits DIGITS.CSV [EPOCHS] [LIBTORCHACC_TORCH.SO]

#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Makes "acc" a device of this process: the name first, then the library whose kernels are
// registered under it.
static torch::Device acc(const char* library) {
  c10::register_privateuse1_backend("acc");
  if (!dlopen(library, RTLD_NOW | RTLD_GLOBAL)) throw std::runtime_error(dlerror());
  return torch::Device("acc");
}

struct Digits {
  torch::Tensor images, labels;
};

// Rows of 64 pixels, 0 to 16, and the digit.
static Digits read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<float> pixels;
  std::vector<int64_t> labels;
  for (std::string line; std::getline(file, line);) {
    std::stringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) pixels.push_back(std::stof(cell) / 16);
    labels.push_back(static_cast<int64_t>(pixels.back() * 16));
    pixels.pop_back();
  }
  const auto rows = static_cast<int64_t>(labels.size());
  return {torch::tensor(pixels).view({rows, 1, 8, 8}), torch::tensor(labels)};
}

struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 16, 3).padding(1)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(16, 32, 3).padding(1)};
  torch::nn::Linear hidden{32 * 2 * 2, 64}, out{64, 10};

  NetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("hidden", hidden);
    register_module("out", out);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return out(torch::relu(hidden(x.flatten(1))));
  }
};
TORCH_MODULE(Net);

static int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIGITS.CSV [EPOCHS] [LIBTORCHACC_TORCH.SO]\n", argv[0]);
    return 2;
  }
  const auto device = acc(argc > 3 ? argv[3] : "libtorchacc_torch.so");
  torch::manual_seed(0);
  const auto [images, labels] = read(argv[1]);
  const int64_t held_out = 297, train = labels.size(0) - held_out, batch = 100;
  Net net;
  net->to(device);
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(3e-3));
  const int epochs = argc > 2 ? std::stoi(argv[2]) : 5;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const auto order = torch::randperm(train);
    auto total = torch::zeros({}, device);
    for (int64_t at = 0; at + batch <= train; at += batch) {
      const auto rows = order.slice(0, at, at + batch);
      const auto x = images.index_select(0, rows).to(device);
      const auto y = labels.index_select(0, rows).to(device);
      optimizer.zero_grad();
      const auto loss = torch::cross_entropy_loss(net(x), y);
      loss.backward();
      optimizer.step();
      total += loss.detach();
    }
    torch::NoGradGuard no_grad;
    const auto guess = net(images.slice(0, train).to(device)).argmax(1).cpu();
    const auto right = (guess == labels.slice(0, train)).sum().item<int64_t>();
    std::printf("epoch %d: loss %.4f, %.1f %% of %ld held-out digits right\n", epoch,
                total.item<float>() / static_cast<float>(train / batch),
                100.0 * static_cast<double>(right) / held_out, static_cast<long>(held_out));
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
