// A byte-level language model trained from Node.js: node train.mjs FILE [STEPS]
//
// The next byte from the 16 before it: an embedding, two layers, cross entropy, AdamW.

import { readFileSync } from "node:fs";
import { Context, Scalar, tidy } from "./torchacc.mjs";

const [file, steps = "300"] = process.argv.slice(2);
if (file === undefined) {
  console.error("usage: node train.mjs FILE [STEPS]");
  process.exit(2);
}
const text = readFileSync(file);
const CONTEXT = 16;
const BATCH = 64;
const WIDTH = 32;
const HIDDEN = 256;
if (text.length <= CONTEXT) throw new Error(`${file} has only ${text.length} bytes`);

// The same run every time.
let state = 1;
function random() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
}

const acc = new Context();
const shapes = [[256, WIDTH], [CONTEXT * WIDTH, HIDDEN], [HIDDEN], [HIDDEN, 256], [256]];
/** Matrices of random numbers of variance 1 / inputs; the biases are 0. */
const params = shapes.map((sizes) => {
  const [inputs, outputs = 0] = sizes;
  const scale = Math.sqrt(3 / inputs);
  const data = Float32Array.from({ length: inputs * outputs }, () => scale * (2 * random() - 1));
  return outputs > 0 ? acc.tensor(data, sizes) : acc.zeros(Float32Array, sizes);
});
const [means, squares] = [1, 2].map(() => shapes.map((sizes) => acc.zeros(Float32Array, sizes)));

/** Records the loss of a batch. */
function loss(inputs, targets) {
  const [embedding, weight1, bias1, weight2, bias2] = params;
  const bytes = acc.apply("aten::embedding", [embedding, inputs, -1, false, false]);
  const flat = acc.apply("reshape", [bytes, [BATCH, CONTEXT * WIDTH]]);
  const linear = (x, weight, bias) => acc.apply("aten::addmm", [bias, x, weight, 1, 1]);
  const hidden = acc.apply("aten::relu", [linear(flat, weight1, bias1)]);
  const logits = linear(hidden, weight2, bias2);
  const logs = acc.apply("aten::_log_softmax", [logits, 1, false]);
  return acc.apply("aten::nll_loss_forward", [logs, targets, null, 1, -100], 2)[0];
}

function step(number) {
  const [inputs, targets] = [new BigInt64Array(BATCH * CONTEXT), new BigInt64Array(BATCH)];
  for (let row = 0; row < BATCH; row++) {
    const start = Math.floor(random() * (text.length - CONTEXT));
    for (let i = 0; i < CONTEXT; i++) inputs[row * CONTEXT + i] = BigInt(text[start + i]);
    targets[row] = BigInt(text[start + CONTEXT]);
  }
  const result = tidy(() => {
    const value = loss(acc.tensor(inputs, [BATCH, CONTEXT]), acc.tensor(targets, [BATCH]));
    const rate = 3e-3 * Math.min(1, number / 20);
    const numbers = [number, rate, 0.9, 0.99, 0.01, 1e-8].map((x) => new Scalar(x));
    const grads = acc.grad(value, params);
    acc.applyInto("torchacc::adamw", [params, grads, means, squares, ...numbers], [...params, ...means, ...squares]);
    return value;
  });
  acc.cut();
  return result;
}

let sum = 0;
const every = 50;
for (let number = 1; number <= Number(steps); number++) {
  const value = step(number);
  sum += value.floats()[0];
  value.release();
  if (number % every === 0) {
    console.log(`step ${number}: loss ${(sum / every).toFixed(3)}`);
    sum = 0;
  }
}
const { compiles, recorded_ops, replayed_ops } = acc.metrics();
console.log(`${compiles} programs compiled, ${replayed_ops} of ${recorded_ops} operations known`);
