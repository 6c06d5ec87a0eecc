// libtorchacc.so from Java by JNA, as far as the example beside this file needs it: the whole binding. What the functions do
// is said in include/torchacc.h.

import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.Structure;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.PointerByReference;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** A context: what is recorded in it, and the programs that were compiled. For one thread. */
public final class Torchacc {
    private interface Functions extends Library {
        int torchacc_abi_version();
        Text torchacc_error_message(Pointer error);
        void torchacc_error_free(Pointer error);
        Text torchacc_string_view(Pointer string);
        void torchacc_string_free(Pointer string);
        Pointer torchacc_context_new(Pointer options, PointerByReference out);
        Pointer torchacc_cut(Pointer context);
        Pointer torchacc_metrics(Pointer context, PointerByReference out);
        Pointer torchacc_op_find(Text name, IntByReference out);
        Pointer torchacc_apply(Pointer context, int op, Pointer args, long nArgs, Pointer[] outs, long nOuts);
        Pointer torchacc_apply_into(Pointer context, int op, Pointer args, long nArgs, Pointer[] outs, long nOuts);
        Pointer torchacc_grad(Pointer context, Pointer loss, Pointer[] params, long count, Pointer[] grads);
        Pointer torchacc_tensor_from_host(Pointer context, int dtype, long[] sizes, int rank, Pointer data, long len, PointerByReference out);
        Pointer torchacc_tensor_read(Pointer tensor, Pointer data, long len);
        long torchacc_tensor_nbytes(Pointer tensor);
        void torchacc_tensor_release(Pointer tensor);
    }

    /** A torchacc_str. */
    @Structure.FieldOrder({"data", "len"})
    public static class Text extends Structure implements Structure.ByValue {
        public Pointer data;
        public long len;

        static Text of(String string) {
            byte[] bytes = string.getBytes(StandardCharsets.UTF_8);
            Text text = new Text();
            text.data = new Memory(bytes.length + 1);
            text.data.write(0, bytes, 0, bytes.length);
            text.len = bytes.length;
            return text;
        }

        @Override
        public String toString() {
            return new String(data.getByteArray(0, (int) len), StandardCharsets.UTF_8);
        }
    }

    /** A number that may differ from call to call without compiling again. */
    public record Scalar(double value) {}

    /** A tensor of the library. Made in a {@link #tidy}, it is released there: Java does not know how large it is. */
    public final class Tensor {
        private final Pointer handle;

        private Tensor(Pointer handle) {
            this.handle = handle;
            if (!scopes.isEmpty()) scopes.peek().add(this);
        }

        public void release() {
            C.torchacc_tensor_release(handle);
        }

        /** Its elements, which must be f32; waits until they are computed. */
        public float[] floats() {
            long length = C.torchacc_tensor_nbytes(handle);
            try (Memory data = new Memory(length)) {
                check(C.torchacc_tensor_read(handle, data, length));
                return data.getFloatArray(0, (int) (length / Float.BYTES));
            }
        }
    }

    private static final int ABI = 1;
    private static final int I64 = 5;
    private static final int F32 = 8;
    private static final Functions C = Native.load(System.getenv().getOrDefault("TORCHACC_LIBRARY", "torchacc"), Functions.class);

    private final Pointer handle;
    private final Map<String, Integer> operators = new HashMap<>();
    private final Deque<List<Tensor>> scopes = new ArrayDeque<>();

    public Torchacc() {
        int served = C.torchacc_abi_version();
        if (served != ABI) throw new IllegalStateException("the library has ABI " + served + ", this binding is for " + ABI);
        PointerByReference out = new PointerByReference();
        check(C.torchacc_context_new(null, out));
        handle = out.getValue();
    }

    private static void check(Pointer error) {
        if (error == null) return;
        String message = C.torchacc_error_message(error).toString();
        C.torchacc_error_free(error);
        throw new IllegalStateException(message);
    }

    /** A copy of an array as a tensor of these sizes. */
    public Tensor tensor(float[] data, long... sizes) {
        try (Memory copy = new Memory(Math.max(1, (long) data.length * Float.BYTES))) {
            copy.write(0, data, 0, data.length);
            return fromHost(F32, copy, (long) data.length * Float.BYTES, sizes);
        }
    }

    public Tensor tensor(long[] data, long... sizes) {
        try (Memory copy = new Memory(Math.max(1, (long) data.length * Long.BYTES))) {
            copy.write(0, data, 0, data.length);
            return fromHost(I64, copy, (long) data.length * Long.BYTES, sizes);
        }
    }

    private Tensor fromHost(int dtype, Pointer data, long length, long[] sizes) {
        PointerByReference out = new PointerByReference();
        check(C.torchacc_tensor_from_host(handle, dtype, sizes, sizes.length, data, length, out));
        return new Tensor(out.getValue());
    }

    /** Records an operator with one result: tensors and lists of them, integers, doubles, booleans, arrays of long, null. */
    public Tensor apply(String name, Object... values) {
        return apply(1, name, values).get(0);
    }

    /** The same, of an operator with several. */
    public List<Tensor> apply(int results, String name, Object... values) {
        Pointer[] outs = new Pointer[results];
        Arguments arguments = new Arguments(values);
        check(C.torchacc_apply(handle, operator(name), arguments.data, values.length, outs, results));
        return tensors(outs);
    }

    /** Records an operator whose results go into `outs`. */
    public void applyInto(List<Tensor> outs, String name, Object... values) {
        Arguments arguments = new Arguments(values);
        check(C.torchacc_apply_into(handle, operator(name), arguments.data, values.length, handles(outs), outs.size()));
    }

    /** The gradients of a loss. */
    public List<Tensor> grad(Tensor loss, List<Tensor> params) {
        Pointer[] grads = new Pointer[params.size()];
        check(C.torchacc_grad(handle, loss.handle, handles(params), params.size(), grads));
        return tensors(grads);
    }

    /** Closes the step: it is compiled if it is new, and run while the next one is recorded. */
    public void cut() {
        check(C.torchacc_cut(handle));
    }

    /** The context's counters, as JSON. */
    public String metrics() {
        PointerByReference out = new PointerByReference();
        check(C.torchacc_metrics(handle, out));
        String json = C.torchacc_string_view(out.getValue()).toString();
        C.torchacc_string_free(out.getValue());
        return json;
    }

    /** Runs `body` and releases the tensors it made, but for the one it returns. */
    public Tensor tidy(Supplier<Tensor> body) {
        List<Tensor> made = new ArrayList<>();
        Tensor result = null;
        scopes.push(made);
        try {
            result = body.get();
            return result;
        } finally {
            scopes.pop();
            made.remove(result);
            made.forEach(Tensor::release);
        }
    }

    private int operator(String name) {
        return operators.computeIfAbsent(name, unknown -> {
            IntByReference out = new IntByReference();
            check(C.torchacc_op_find(Text.of(unknown), out));
            return out.getValue();
        });
    }

    private List<Tensor> tensors(Pointer[] handles) {
        List<Tensor> made = new ArrayList<>();
        for (Pointer owned : handles) made.add(new Tensor(owned));
        return made;
    }

    private static Pointer[] handles(List<Tensor> tensors) {
        return tensors.stream().map(tensor -> tensor.handle).toArray(Pointer[]::new);
    }

    /** An array of torchacc_arg: kind and len, 4 bytes each, and 8 bytes of value. */
    private static final class Arguments {
        private static final int SIZE = 16;
        final Memory data;
        /** What the values point at, for as long as this lives. */
        private final List<Memory> kept = new ArrayList<>();

        Arguments(Object[] values) {
            data = new Memory((long) SIZE * Math.max(1, values.length));
            data.clear();
            for (int i = 0; i < values.length; i++) fill(data.share((long) SIZE * i, SIZE), values[i]);
        }

        private void fill(Pointer arg, Object value) {
            if (value == null) {
                arg.setInt(0, 0);
            } else if (value instanceof Tensor tensor) {
                arg.setInt(0, 3);
                arg.setPointer(8, tensor.handle);
            } else if (value instanceof Integer number) {
                arg.setInt(0, 5);
                arg.setLong(8, number);
            } else if (value instanceof Double number) {
                arg.setInt(0, 6);
                arg.setDouble(8, number);
            } else if (value instanceof Boolean flag) {
                arg.setInt(0, 7);
                arg.setLong(8, flag ? 1 : 0);
            } else if (value instanceof Scalar scalar) {
                arg.setInt(0, 9);
                arg.setDouble(8, scalar.value);
            } else if (value instanceof long[] list) {
                list(arg, 11, list.length).write(0, list, 0, list.length);
            } else if (value instanceof List<?> list) {
                Memory pointers = list(arg, 4, list.size());
                for (int i = 0; i < list.size(); i++) pointers.setPointer(8L * i, ((Tensor) list.get(i)).handle);
            } else {
                throw new IllegalArgumentException("an argument of " + value.getClass());
            }
        }

        /** Room for so many elements of 8 bytes. */
        private Memory list(Pointer arg, int kind, int length) {
            Memory elements = new Memory(8L * Math.max(1, length));
            kept.add(elements);
            arg.setInt(0, kind);
            arg.setInt(4, length);
            arg.setPointer(8, elements);
            return elements;
        }
    }
}
