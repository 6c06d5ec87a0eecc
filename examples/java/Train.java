// A byte-level language model trained from Java: java Train FILE [STEPS]
//
// The next byte from the 16 before it: an embedding, two layers, cross entropy, AdamW.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

public final class Train {
    private static final int CONTEXT = 16;
    private static final int BATCH = 64;
    private static final int WIDTH = 32;
    private static final int HIDDEN = 256;
    private static final int EVERY = 50;
    private static final long[][] SHAPES = {{256, WIDTH}, {CONTEXT * WIDTH, HIDDEN}, {HIDDEN}, {HIDDEN, 256}, {256}};

    private final byte[] text;
    private final Torchacc acc = new Torchacc();
    private final Random random = new Random(1);
    private final List<Torchacc.Tensor> params = start(1);
    private final List<Torchacc.Tensor> means = start(0);
    private final List<Torchacc.Tensor> squares = start(0);
    private final List<Torchacc.Tensor> state = Stream.of(params, means, squares).flatMap(List::stream).toList();

    private Train(byte[] text) {
        this.text = text;
    }

    /** Matrices of random numbers of variance `variance` / inputs; the biases are 0. */
    private List<Torchacc.Tensor> start(double variance) {
        List<Torchacc.Tensor> made = new ArrayList<>();
        for (long[] sizes : SHAPES) {
            boolean isMatrix = sizes.length > 1;
            float[] data = new float[(int) (sizes[0] * (isMatrix ? sizes[1] : 1))];
            double scale = isMatrix ? Math.sqrt(variance / sizes[0]) : 0;
            for (int i = 0; i < data.length; i++) data[i] = (float) (scale * random.nextGaussian());
            made.add(acc.tensor(data, sizes));
        }
        return made;
    }

    /** Records the loss of a batch. */
    private Torchacc.Tensor loss(Torchacc.Tensor inputs, Torchacc.Tensor targets) {
        Torchacc.Tensor bytes = acc.apply("aten::embedding", params.get(0), inputs, -1, false, false);
        Torchacc.Tensor flat = acc.apply("reshape", bytes, new long[] {BATCH, CONTEXT * WIDTH});
        Torchacc.Tensor hidden = acc.apply("aten::relu", linear(flat, 1));
        Torchacc.Tensor logs = acc.apply("aten::_log_softmax", linear(hidden, 3), 1, false);
        return acc.apply(2, "aten::nll_loss_forward", logs, targets, null, 1, -100).get(0);
    }

    private Torchacc.Tensor linear(Torchacc.Tensor x, int layer) {
        return acc.apply("aten::addmm", params.get(layer + 1), x, params.get(layer), 1, 1);
    }

    /** Records a step; what it made is gone at its end, but for the loss. */
    private Torchacc.Tensor step(int number) {
        long[] inputs = new long[BATCH * CONTEXT];
        long[] targets = new long[BATCH];
        for (int row = 0; row < BATCH; row++) {
            int start = random.nextInt(text.length - CONTEXT);
            for (int i = 0; i < CONTEXT; i++) inputs[row * CONTEXT + i] = text[start + i] & 0xff;
            targets[row] = text[start + CONTEXT] & 0xff;
        }
        Torchacc.Tensor result = acc.tidy(() -> {
            Torchacc.Tensor value = loss(acc.tensor(inputs, BATCH, CONTEXT), acc.tensor(targets, BATCH));
            List<Torchacc.Tensor> grads = acc.grad(value, params);
            acc.applyInto(state, "torchacc::adamw", params, grads, means, squares, scalar(number),
                    scalar(3e-3 * Math.min(1, number / 20.0)), scalar(0.9), scalar(0.99), scalar(0.01), scalar(1e-8));
            return value;
        });
        acc.cut();
        return result;
    }

    private static Torchacc.Scalar scalar(double value) {
        return new Torchacc.Scalar(value);
    }

    /** A counter of the context's. */
    private static long count(String metrics, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": *(\\d+)").matcher(metrics);
        if (!found.find()) throw new IllegalStateException("no metric " + name);
        return Long.parseLong(found.group(1));
    }

    public static void main(String[] args) throws IOException {
        if (args.length < 1) {
            System.err.println("usage: java Train FILE [STEPS]");
            System.exit(2);
        }
        byte[] text = Files.readAllBytes(Path.of(args[0]));
        if (text.length <= CONTEXT) throw new IllegalArgumentException(args[0] + " has only " + text.length + " bytes");
        Train train = new Train(text);
        int steps = args.length > 1 ? Integer.parseInt(args[1]) : 300;
        double sum = 0;
        for (int number = 1; number <= steps; number++) {
            Torchacc.Tensor value = train.step(number);
            sum += value.floats()[0];
            value.release();
            if (number % EVERY == 0) {
                System.out.printf("step %d: loss %.3f%n", number, sum / EVERY);
                sum = 0;
            }
        }
        String metrics = train.acc.metrics();
        System.out.printf("%d programs compiled, %d of %d operations known%n", count(metrics, "compiles"),
                count(metrics, "replayed_ops"), count(metrics, "recorded_ops"));
    }
}
