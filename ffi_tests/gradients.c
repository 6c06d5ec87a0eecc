/* Gradients and optimizers from C: a small network is trained, its gradients are those that
 * differences give, and what cannot be differentiated is refused.
 */
#include <math.h>

#include "check.h"

enum { ROWS = 16, IN = 3, HIDDEN = 8, PARAMS = 4 };

/* An MLP: x (tanh) w1 + b1, w2 + b2, mean of the squared error. */
typedef struct {
  torchacc_context* context;
  torchacc_tensor* params[PARAMS];
  torchacc_tensor *x, *target;
} network;

static torchacc_tensor* apply(torchacc_context* context, const char* name, torchacc_arg* args,
                              size_t n) {
  torchacc_tensor* out;
  OK(torchacc_apply(context, op(name), args, n, &out, 1));
  return out;
}

static torchacc_tensor* linear(network* net, torchacc_tensor* x, int first) {
  torchacc_arg args[3] = {tensor_arg(net->params[first + 1]), tensor_arg(x),
                          tensor_arg(net->params[first])};
  return apply(net->context, "aten::addmm", args, 3);
}

static torchacc_tensor* loss_of(network* net) {
  torchacc_tensor* sum = linear(net, net->x, 0);
  torchacc_arg one[1] = {tensor_arg(sum)};
  torchacc_tensor* hidden = apply(net->context, "aten::tanh", one, 1);
  torchacc_tensor* y = linear(net, hidden, 2);
  torchacc_arg two[2] = {tensor_arg(y), tensor_arg(net->target)};
  torchacc_tensor* loss = apply(net->context, "aten::mse_loss", two, 2);
  torchacc_tensor_release(sum);
  torchacc_tensor_release(hidden);
  torchacc_tensor_release(y);
  return loss;
}

static torchacc_tensor* wave(torchacc_context* context, int64_t rows, int64_t columns,
                             float phase) {
  float data[ROWS * HIDDEN];
  for (int i = 0; i < rows * columns; ++i) data[i] = sinf(1.7f * (float)i + phase);
  return floats(context, data, rows, columns);
}

static torchacc_tensor* zeros(torchacc_context* context, int64_t rows, int64_t columns) {
  int64_t sizes[2] = {rows, columns};
  torchacc_tensor* tensor;
  OK(torchacc_tensor_zeros(context, TORCHACC_F32, sizes, 2, &tensor));
  return tensor;
}

static network network_new(torchacc_context* context) {
  network net = {context, {0}, wave(context, ROWS, IN, 0), wave(context, ROWS, 1, 1)};
  net.params[0] = wave(context, IN, HIDDEN, 2);
  /* Never written: its value is made in the trace. */
  net.params[1] = zeros(context, 1, HIDDEN);
  net.params[2] = wave(context, HIDDEN, 1, 3);
  net.params[3] = zeros(context, 1, 1);
  return net;
}

static void network_free(network* net) {
  for (int i = 0; i < PARAMS; ++i) torchacc_tensor_release(net->params[i]);
  torchacc_tensor_release(net->x);
  torchacc_tensor_release(net->target);
}

static float item(torchacc_tensor* tensor) {
  float value;
  OK(torchacc_tensor_read(tensor, &value, sizeof value));
  return value;
}

static void agree_with_differences(torchacc_context* context) {
  network net = network_new(context);
  torchacc_tensor *loss = loss_of(&net), *grads[PARAMS];
  OK(torchacc_grad(context, loss, net.params, PARAMS, grads));
  for (int p = 0; p < PARAMS; ++p) {
    float values[ROWS * HIDDEN], slopes[ROWS * HIDDEN];
    size_t nbytes = torchacc_tensor_nbytes(grads[p]), n = nbytes / sizeof(float);
    EXPECT(nbytes == torchacc_tensor_nbytes(net.params[p]));
    OK(torchacc_tensor_read(grads[p], slopes, nbytes));
    OK(torchacc_tensor_read(net.params[p], values, nbytes));
    torchacc_view view;
    OK(torchacc_tensor_view(net.params[p], &view));
    for (size_t i = 0; i < n; ++i) {
      float kept = values[i], at[2];
      for (int side = 0; side < 2; ++side) {
        values[i] = kept + (side ? 0.01f : -0.01f);
        OK(torchacc_buffer_write(view.buffer, TORCHACC_F32, values, nbytes));
        torchacc_tensor* moved = loss_of(&net);
        at[side] = item(moved);
        torchacc_tensor_release(moved);
      }
      values[i] = kept;
      EXPECT(fabsf((at[1] - at[0]) / 0.02f - slopes[i]) < 2e-3f);
    }
    OK(torchacc_buffer_write(view.buffer, TORCHACC_F32, values, nbytes));
    torchacc_tensor_release(grads[p]);
  }
  torchacc_tensor_release(loss);
  network_free(&net);
}

static torchacc_arg list_arg(torchacc_tensor* const* tensors, uint32_t n) {
  torchacc_arg arg = {TORCHACC_ARG_TENSORS, n, {0}};
  arg.v.p = tensors;
  return arg;
}

static void views(torchacc_tensor* const* tensors, int n, torchacc_view* out) {
  for (int i = 0; i < n; ++i) OK(torchacc_tensor_view(tensors[i], &out[i]));
}

static void adamw(network* net, torchacc_tensor** grads, torchacc_tensor** means,
                  torchacc_tensor** squares, int step) {
  torchacc_arg args[] = {
      list_arg(net->params, PARAMS), list_arg(grads, PARAMS), list_arg(means, PARAMS),
      list_arg(squares, PARAMS),     scalar_arg(step),        scalar_arg(0.03 / sqrt(step)),
  };
  torchacc_view outs[3 * PARAMS];
  views(net->params, PARAMS, outs);
  views(means, PARAMS, outs + PARAMS);
  views(squares, PARAMS, outs + 2 * PARAMS);
  OK(torchacc_record(net->context, op("torchacc::adamw"), args, 6, outs, 3 * PARAMS));
}

static void sgd(network* net, torchacc_tensor** grads, torchacc_tensor** velocities, int step) {
  torchacc_arg args[] = {
      list_arg(net->params, PARAMS), list_arg(grads, PARAMS), list_arg(velocities, PARAMS),
      scalar_arg(0.05 / sqrt(step)), scalar_arg(0.8),         scalar_arg(1e-4),
      {TORCHACC_ARG_BOOL, 0, {1}},
  };
  torchacc_view outs[2 * PARAMS];
  views(net->params, PARAMS, outs);
  views(velocities, PARAMS, outs + PARAMS);
  OK(torchacc_record(net->context, op("torchacc::sgd"), args, 7, outs, 2 * PARAMS));
}

static void train(torchacc_context* context, int with_adamw) {
  network net = network_new(context);
  torchacc_tensor *first[PARAMS], *second[PARAMS], *grads[PARAMS];
  for (int p = 0; p < PARAMS; ++p) {
    torchacc_view view;
    OK(torchacc_tensor_view(net.params[p], &view));
    first[p] = zeros(context, view.sizes[0], view.sizes[1]);
    second[p] = zeros(context, view.sizes[0], view.sizes[1]);
  }
  float start = 0, end = 0;
  int64_t compiles = 0;
  for (int step = 1; step <= 30; ++step) {
    torchacc_tensor* loss = loss_of(&net);
    OK(torchacc_grad(context, loss, net.params, PARAMS, grads));
    if (with_adamw) {
      adamw(&net, grads, first, second, step);
    } else {
      sgd(&net, grads, first, step);
    }
    for (int p = 0; p < PARAMS; ++p) torchacc_tensor_release(grads[p]);
    OK(torchacc_cut(context));
    end = item(loss);
    if (step == 1) start = end;
    torchacc_tensor_release(loss);
    if (step == 3) compiles = metric(context, "\"compiles\"");
  }
  EXPECT(end < 0.3f * start);
  EXPECT(metric(context, "\"compiles\"") == compiles);
  for (int p = 0; p < PARAMS; ++p) {
    torchacc_tensor_release(first[p]);
    torchacc_tensor_release(second[p]);
  }
  network_free(&net);
}

static torchacc_arg dtype_arg(torchacc_dtype dtype) {
  return (torchacc_arg){.kind = TORCHACC_ARG_DTYPE, .v.i = dtype};
}

/* What has no gradient is refused where it is asked for, and nothing else is lost. */
static void no_gradient(torchacc_context* context) {
  const int64_t sizes[1] = {3};
  const float ones[3] = {1, 1, 1};
  torchacc_tensor *x, *z, *bits, *loss, *other, *grad;
  OK(torchacc_tensor_from_host(context, TORCHACC_F32, sizes, 1, ones, sizeof ones, &x));
  OK(torchacc_tensor_from_host(context, TORCHACC_F32, sizes, 1, ones, sizeof ones, &z));
  torchacc_arg args[2] = {tensor_arg(x), dtype_arg(TORCHACC_I32)};
  OK(torchacc_apply(context, op("bitcast"), args, 2, &bits, 1));
  args[0] = tensor_arg(bits), args[1] = dtype_arg(TORCHACC_F32);
  torchacc_tensor* again;
  OK(torchacc_apply(context, op("bitcast"), args, 2, &again, 1));
  args[0] = tensor_arg(again);
  OK(torchacc_apply(context, op("aten::sum"), args, 1, &loss, 1));
  args[0] = args[1] = tensor_arg(z);
  OK(torchacc_apply(context, op("aten::add.Tensor"), args, 2, &other, 1));
  FAILS_SAYING(TORCHACC_UNSUPPORTED, "bitcast has no gradient",
               torchacc_grad(context, loss, &x, 1, &grad));
  /* It does not depend on z. */
  OK(torchacc_grad(context, loss, &z, 1, &grad));
  EXPECT(item(loss) == 3);
  float values[3];
  OK(torchacc_tensor_read(other, values, sizeof values));
  EXPECT(values[0] == 2 && values[2] == 2);
  OK(torchacc_tensor_read(grad, values, sizeof values));
  EXPECT(values[0] == 0 && values[2] == 0);
  torchacc_tensor* all[] = {x, z, bits, again, loss, other, grad};
  for (int i = 0; i < 7; ++i) torchacc_tensor_release(all[i]);
}

static void refusals(torchacc_context* context) {
  network net = network_new(context);
  torchacc_tensor** params = net.params;
  torchacc_tensor *loss = loss_of(&net), *grads[PARAMS] = {0};
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_grad(context, net.x, params, PARAMS, grads));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_grad(context, NULL, params, PARAMS, grads));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_grad(context, loss, params, PARAMS, NULL));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_grad(context, loss, NULL, PARAMS, grads));
  OK(torchacc_grad(context, loss, NULL, 0, NULL));
  /* Written since the loss read it. */
  torchacc_view view;
  OK(torchacc_tensor_view(net.params[0], &view));
  torchacc_arg args[2] = {tensor_arg(net.params[0]), scalar_arg(0.5)};
  OK(torchacc_record(context, op("aten::mul.Scalar"), args, 2, &view, 1));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_grad(context, loss, params, PARAMS, grads));
  OK(torchacc_grad(context, loss, params + 1, 1, grads));
  torchacc_tensor_release(grads[0]);
  /* Cut. */
  OK(torchacc_cut(context));
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_grad(context, loss, params, PARAMS, grads));
  torchacc_tensor_release(loss);
  loss = loss_of(&net);
  item(loss);
  FAILS(TORCHACC_INVALID_ARGUMENT, torchacc_grad(context, loss, params, PARAMS, grads));
  torchacc_tensor_release(loss);
  network_free(&net);
}

int main(void) {
  const char* backends[] = {"cpu", "reference"};
  for (int i = 0; i < 2; ++i) {
    torchacc_options options = {.struct_size = sizeof options};
    options.backend = str(backends[i]);
    options.cache_folder = str("off");
    torchacc_context* context;
    OK(torchacc_context_new(&options, &context));
    agree_with_differences(context);
    train(context, 1);
    train(context, 0);
    refusals(context);
    no_gradient(context);
    EXPECT(metric(context, "\"live_buffers\"") == 0);
    torchacc_context_release(context);
  }
  puts("ok");
  return 0;
}
