"""The C ABI by ctypes: what a program without PyTorch sees.

Operators are called by name with Python values.
"""

import ctypes as c
import json
import os
from pathlib import Path

import numpy as np

DTYPES = {np.dtype("bool"): 0, np.dtype("int64"): 5, np.dtype("f4"): 8, np.dtype("f8"): 9}


class Text(c.Structure):
    _fields_ = [("data", c.c_char_p), ("len", c.c_size_t)]


class Value(c.Union):
    _fields_ = [("i", c.c_int64), ("f", c.c_double), ("p", c.c_void_p)]


class Argument(c.Structure):
    _fields_ = [("kind", c.c_uint32), ("len", c.c_uint32), ("v", Value)]


class View(c.Structure):
    _fields_ = [
        ("buffer", c.c_void_p),
        ("sizes", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("offset", c.c_int64),
        ("rank", c.c_uint32),
        ("dtype", c.c_uint32),
    ]


class Options(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("backend", Text),
        ("num_threads", c.c_uint32),
        ("trace_limit", c.c_uint64),
        ("library_path", Text),
        ("cache_folder", Text),
        ("cache_limit", c.c_uint64),
        ("trace_bytes", c.c_uint64),
    ]


def library():
    built = Path(__file__).parents[2] / "torch_extension" / "torchacc" / "lib" / "libtorchacc.so.1"
    lib = c.CDLL(os.environ.get("TORCHACC_LIBRARY", str(built)))
    for name in ("torchacc_error_message", "torchacc_string_view"):
        function = getattr(lib, name)
        function.restype, function.argtypes = Text, [c.c_void_p]
    for name in ("torchacc_tensor_release", "torchacc_context_release", "torchacc_error_free"):
        getattr(lib, name).argtypes = [c.c_void_p]
    lib.torchacc_tensor_nbytes.restype = c.c_size_t
    lib.torchacc_tensor_nbytes.argtypes = [c.c_void_p]
    return lib


LIB = library()


def text(value):
    data = value.encode()
    return Text(data, len(data))


def call(name, *arguments):
    function = getattr(LIB, name)
    function.restype = c.c_void_p
    error = function(*arguments)
    if error:
        message = LIB.torchacc_error_message(error)
        message = c.string_at(message.data, message.len).decode()
        LIB.torchacc_error_free(error)
        raise RuntimeError(message)


class Number:
    """A scalar argument: may differ from call to call without compiling again."""

    def __init__(self, value):
        self.value = value


class Tensor:
    def __init__(self, pointer, dtype=None):
        self.pointer, self.dtype = pointer, dtype

    def __del__(self):
        LIB.torchacc_tensor_release(self.pointer)

    def view(self):
        view = View()
        call("torchacc_tensor_view", self.pointer, c.byref(view))
        return view

    def numpy(self):
        view = self.view()
        dtype = next(d for d, number in DTYPES.items() if number == view.dtype)
        data = np.empty([view.sizes[d] for d in range(view.rank)], dtype)
        call(
            "torchacc_tensor_read",
            self.pointer,
            c.c_void_p(data.ctypes.data),
            c.c_size_t(data.nbytes),
        )
        return data


class Context:
    def __init__(self, backend="cpu", trace_limit=0):
        options = Options(c.sizeof(Options), text(backend), 0, trace_limit)
        options.cache_folder = text("off")
        self.pointer = c.c_void_p()
        call("torchacc_context_new", c.byref(options), c.byref(self.pointer))

    def __del__(self):
        LIB.torchacc_context_release(self.pointer)

    def tensor(self, array):
        array = np.asarray(array, order="C")
        sizes = (c.c_int64 * max(array.ndim, 1))(*array.shape)
        out = c.c_void_p()
        data, number = c.c_void_p(array.ctypes.data), c.c_uint32(DTYPES[array.dtype])
        rank, nbytes = c.c_uint32(array.ndim), c.c_size_t(array.nbytes)
        call(
            "torchacc_tensor_from_host",
            self.pointer,
            number,
            sizes,
            rank,
            data,
            nbytes,
            c.byref(out),
        )
        return Tensor(out)

    def zeros(self, *sizes, dtype="f8"):
        out = c.c_void_p()
        number, rank = c.c_uint32(DTYPES[np.dtype(dtype)]), c.c_uint32(len(sizes))
        sizes = (c.c_int64 * max(len(sizes), 1))(*sizes)
        call("torchacc_tensor_zeros", self.pointer, number, sizes, rank, c.byref(out))
        return Tensor(out)

    def narrowed(self, tensor, sizes, strides, offset):
        """A view of the tensor's buffer."""
        view = tensor.view()
        view.sizes, view.strides = (
            (c.c_int64 * len(sizes))(*sizes),
            (c.c_int64 * len(sizes))(*strides),
        )
        view.offset, view.rank = offset, len(sizes)
        out = c.c_void_p()
        call("torchacc_tensor_from_view", c.byref(view), c.byref(out))
        return Tensor(out)

    def operator(self, name):
        found = c.c_uint32()
        call("torchacc_op_find", text(name), c.byref(found))
        return found

    def arguments(self, values):
        """C arguments, and what they point at."""
        kept, arguments = [], (Argument * max(len(values), 1))()
        for argument, value in zip(arguments, values, strict=False):
            kept.append(fill(argument, value))
        return arguments, kept

    def apply(self, name, *values, outs=1):
        arguments, _kept = self.arguments(values)
        results = (c.c_void_p * outs)()
        n, n_outs = c.c_size_t(len(values)), c.c_size_t(outs)
        call("torchacc_apply", self.pointer, self.operator(name), arguments, n, results, n_outs)
        tensors = [Tensor(c.c_void_p(pointer)) for pointer in results]
        return tensors if outs > 1 else tensors[0]

    def apply_into(self, name, *values, outs):
        """Records an operator whose results go into tensors that are there."""
        arguments, _kept = self.arguments(values)
        pointers = (c.c_void_p * len(outs))(*(out.pointer for out in outs))
        n, n_outs = c.c_size_t(len(values)), c.c_size_t(len(outs))
        op = self.operator(name)
        call("torchacc_apply_into", self.pointer, op, arguments, n, pointers, n_outs)

    def grad(self, loss, params):
        pointers = (c.c_void_p * max(len(params), 1))(*(param.pointer for param in params))
        results = (c.c_void_p * max(len(params), 1))()
        count = c.c_size_t(len(params))
        call("torchacc_grad", self.pointer, loss.pointer, pointers, count, results)
        return [Tensor(c.c_void_p(results[i])) for i in range(len(params))]

    def cut(self):
        call("torchacc_cut", self.pointer)

    def sync(self):
        call("torchacc_sync", self.pointer)

    def metrics(self):
        out = c.c_void_p()
        call("torchacc_metrics", self.pointer, c.byref(out))
        view = LIB.torchacc_string_view(out)
        found = json.loads(c.string_at(view.data, view.len))
        LIB.torchacc_string_free(out)
        return found


def fill(argument, value):
    """Fills a C argument; returns what has to live until the call."""
    if value is None:
        argument.kind = 0
    elif isinstance(value, Tensor):
        argument.kind, argument.v.p = 3, value.pointer
    elif isinstance(value, Number):
        floats = isinstance(value.value, float)
        argument.kind = 9 if floats else 8
        setattr(argument.v, "f" if floats else "i", value.value)
    elif isinstance(value, bool):
        argument.kind, argument.v.i = 7, value
    elif isinstance(value, int):
        argument.kind, argument.v.i = 5, value
    elif isinstance(value, float):
        argument.kind, argument.v.f = 6, value
    elif isinstance(value, str):
        data = value.encode()
        argument.kind, argument.len = 15, len(data)
        argument.v.p = c.cast(c.c_char_p(data), c.c_void_p)
        return data
    else:
        return fill_list(argument, list(value))
    return value


def fill_list(argument, values):
    argument.len = len(values)
    if values and isinstance(values[0], Tensor):
        argument.kind, items = 4, (c.c_void_p * len(values))(*(v.pointer for v in values))
    elif values and isinstance(values[0], bool):
        argument.kind, items = 13, (c.c_uint8 * len(values))(*values)
    else:
        argument.kind, items = 11, (c.c_int64 * max(len(values), 1))(*values)
    argument.v.p = c.cast(items, c.c_void_p)
    return items
