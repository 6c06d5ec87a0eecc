// libtorchacc.so from Node.js, as far as the example beside this file needs it: the whole binding. What the functions do is
// said in include/torchacc.h.

import koffi from "koffi";

const lib = koffi.load(process.env.TORCHACC_LIBRARY ?? "libtorchacc.so.1");

const Text = koffi.struct("torchacc_str", { data: "const void *", len: "size_t" });
koffi.union("torchacc_value", { i: "int64_t", f: "double", p: "const void *" });
koffi.struct("torchacc_arg", { kind: "uint32_t", len: "uint32_t", v: "torchacc_value" });

const abiVersion = lib.func("uint32_t torchacc_abi_version()");
const errorMessage = lib.func("torchacc_str torchacc_error_message(const void *error)");
const errorFree = lib.func("void torchacc_error_free(void *error)");
const stringView = lib.func("torchacc_str torchacc_string_view(const void *string)");
const stringFree = lib.func("void torchacc_string_free(void *string)");
const tensorNbytes = lib.func("size_t torchacc_tensor_nbytes(const void *tensor)");
const tensorRelease = lib.func("void torchacc_tensor_release(void *tensor)");

/** The function of this C signature; an error that it returns is thrown. */
function fallible(parameters) {
  const call = lib.func(`void *${parameters}`);
  return (...args) => {
    const error = call(...args);
    if (error === null) return;
    const message = decoded(errorMessage(error));
    errorFree(error);
    throw new Error(message);
  };
}

const c = {
  contextNew: fallible("torchacc_context_new(const void *options, _Out_ void **out)"),
  cut: fallible("torchacc_cut(void *context)"),
  metrics: fallible("torchacc_metrics(void *context, _Out_ void **out)"),
  find: fallible("torchacc_op_find(torchacc_str name, _Out_ uint32_t *out)"),
  apply: fallible(
    "torchacc_apply(void *context, uint32_t op, const torchacc_arg *args, size_t n_args, _Out_ void **outs, size_t n_outs)",
  ),
  applyInto: fallible(
    "torchacc_apply_into(void *context, uint32_t op, const torchacc_arg *args, size_t n_args, void **outs, size_t n_outs)",
  ),
  grad: fallible("torchacc_grad(void *context, const void *loss, void **params, size_t count, _Out_ void **grads)"),
  fromHost: fallible(
    "torchacc_tensor_from_host(void *context, uint32_t dtype, const int64_t *sizes, uint32_t rank, const void *data, size_t len, _Out_ void **out)",
  ),
  zeros: fallible(
    "torchacc_tensor_zeros(void *context, uint32_t dtype, const int64_t *sizes, uint32_t rank, _Out_ void **out)",
  ),
  read: fallible("torchacc_tensor_read(const void *tensor, _Out_ uint8_t *data, size_t len)"),
};

const ABI = 1;
if (abiVersion() !== ABI) {
  throw new Error(`the library has ABI ${abiVersion()}, this binding is for ${ABI}`);
}

function encoded(string) {
  const data = Buffer.from(string);
  return { data, len: data.length };
}

function decoded({ data, len }) {
  return Buffer.from(koffi.decode(data, koffi.array("uint8_t", len))).toString();
}

const DTYPES = new Map([
  [BigInt64Array, 5],
  [Float32Array, 8],
  [Float64Array, 9],
]);

/** A number that may differ from call to call without compiling again. */
export class Scalar {
  constructor(value) {
    this.value = value;
  }
}

const operators = new Map();

function operator(name) {
  if (!operators.has(name)) {
    const out = [0];
    c.find(encoded(name), out);
    operators.set(name, out[0]);
  }
  return operators.get(name);
}

/** What the C ABI wants for an argument: tensors and lists of them, integers, floats, booleans, lists of integers, null. */
function argument(value) {
  if (value === null) return { kind: 0, len: 0, v: { i: 0 } };
  if (value instanceof Tensor) return { kind: 3, len: 0, v: { p: value.handle } };
  if (value instanceof Scalar) return { kind: 9, len: 0, v: { f: value.value } };
  if (typeof value === "boolean") return { kind: 7, len: 0, v: { i: Number(value) } };
  if (Number.isInteger(value)) return { kind: 5, len: 0, v: { i: value } };
  if (typeof value === "number") return { kind: 6, len: 0, v: { f: value } };
  const pointers = value.length > 0 && value[0] instanceof Tensor;
  const items = pointers ? value.map((tensor) => koffi.address(tensor.handle)) : value.map(BigInt);
  return { kind: pointers ? 4 : 11, len: value.length, v: { p: BigInt64Array.from(items) } };
}

/** A tensor of the library. `release` it, or make it in a `tidy`: Node does not know how large it is. */
export class Tensor {
  constructor(handle) {
    this.handle = handle;
    Context.scopes.at(-1)?.add(this);
  }

  release() {
    tensorRelease(this.handle);
    this.handle = null;
  }

  /** Its elements, which must be f32; waits until they are computed. */
  floats() {
    const bytes = new Uint8Array(tensorNbytes(this.handle));
    c.read(this.handle, bytes, bytes.length);
    return new Float32Array(bytes.buffer);
  }
}

export class Context {
  static scopes = [];

  constructor() {
    const out = [null];
    c.contextNew(null, out);
    this.handle = out[0];
  }

  /** A copy of a typed array as a tensor of these sizes. */
  tensor(data, sizes) {
    const out = [null];
    c.fromHost(this.handle, DTYPES.get(data.constructor), sizes, sizes.length, data, data.byteLength, out);
    return new Tensor(out[0]);
  }

  /** Zeros, of the type that the elements of `arrays` have. */
  zeros(arrays, sizes) {
    const out = [null];
    c.zeros(this.handle, DTYPES.get(arrays), sizes, sizes.length, out);
    return new Tensor(out[0]);
  }

  /** Records an operator; its results are new tensors, a list if there are several. */
  apply(name, values, results = 1) {
    const out = new Array(results).fill(null);
    c.apply(this.handle, operator(name), values.map(argument), values.length, out, results);
    const tensors = out.map((handle) => new Tensor(handle));
    return results > 1 ? tensors : tensors[0];
  }

  /** Records an operator whose results go into `outs`. */
  applyInto(name, values, outs) {
    const handles = outs.map(({ handle }) => handle);
    c.applyInto(this.handle, operator(name), values.map(argument), values.length, handles, outs.length);
  }

  /** The gradients of a loss. */
  grad(loss, params) {
    const out = new Array(params.length).fill(null);
    const handles = params.map(({ handle }) => handle);
    c.grad(this.handle, loss.handle, handles, params.length, out);
    return out.map((handle) => new Tensor(handle));
  }

  /** Closes the step: it is compiled if it is new, and run while the next one is recorded. */
  cut() {
    c.cut(this.handle);
  }

  metrics() {
    const out = [null];
    c.metrics(this.handle, out);
    const metrics = JSON.parse(decoded(stringView(out[0])));
    stringFree(out[0]);
    return metrics;
  }
}

/** Runs `body` and releases the tensors it made, but for the one it returns. */
export function tidy(body) {
  const made = new Set();
  Context.scopes.push(made);
  try {
    const result = body();
    made.delete(result);
    return result;
  } finally {
    Context.scopes.pop();
    made.forEach((tensor) => tensor.release());
  }
}
