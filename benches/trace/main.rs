//! What recording costs in the library: `cargo bench --bench trace`. A step of 2,000 operations on matrices, recorded
//! again as a training loop does; and the cut of it, up to the hand-over to the launch thread. `dispatch.py` beside
//! this file measures the same through PyTorch.

use criterion::{BatchSize, Criterion, Throughput};
use std::sync::Arc;
use std::time::Duration;
use torchacc::aten;
use torchacc::dtype::DType;
use torchacc::record::{Operator, View};
use torchacc::runtime::Context;
use torchacc::runtime::options::{Asked, Options};
use torchacc::shape::Layout;
use torchacc::trace::{ArgRef, BufferId, Call, TensorRef};

const OPERATIONS: usize = 2000;
const WEIGHTS: usize = 100;

/// A loop whose step multiplies its way through the weights and updates each of them now and then.
struct Loop {
    context: Arc<Context>,
    weights: Vec<BufferId>,
    view: View,
    product: Operator,
}

impl Loop {
    fn new() -> Loop {
        let asked = Asked { backend: "null", ..Asked::default() };
        let options = Options::resolve(asked).expect("the environment is in order");
        let context = Context::new(options).expect("the null backend needs nothing");
        let view = View { dtype: DType::F32, layout: Layout::contiguous(&[4, 4]) };
        let weights: Vec<BufferId> = (0..WEIGHTS).map(|_| context.new_buffer(64)).collect();
        for &weight in &weights {
            context.write(weight, &[0; 64]).expect("64 bytes");
        }
        let product = Operator::Native(aten::find("aten::mul.Tensor").expect("a row"));
        Loop { context, weights, view, product }
    }

    fn multiply(&self, a: BufferId, b: BufferId, out: BufferId) {
        let given = |buffer| ArgRef::Tensor(TensorRef::new(buffer, &self.view));
        let outs = [TensorRef::new(out, &self.view)];
        let call = Call { op: self.product, args: &[given(a), given(b)], outs: &outs };
        self.context.record(&call).expect("two matrices");
    }

    /// Half of the results are new and dropped after their use, half are written in place.
    fn step(&self) {
        for index in 0..OPERATIONS / 2 {
            let weight = self.weights[index % WEIGHTS];
            let fresh = self.context.new_buffer(64);
            self.multiply(weight, self.weights[(index + 1) % WEIGHTS], fresh);
            self.multiply(weight, fresh, weight);
            self.context.drop_buffer(fresh);
        }
    }

    fn finish(&self) {
        self.context.sync().expect("nothing fails in the null backend");
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let work = Loop::new();
    let mut group = criterion.benchmark_group("trace");
    group.throughput(Throughput::Elements(OPERATIONS as u64));
    group.bench_function("record", |bencher| {
        bencher.iter_batched(|| work.finish(), |()| work.step(), BatchSize::PerIteration);
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("cut", |bencher| {
        let setup = || {
            work.finish();
            work.step();
        };
        bencher.iter_batched(setup, |()| work.context.cut(), BatchSize::PerIteration);
    });
    group.finish();
    println!("{}", work.context.metrics());
}
