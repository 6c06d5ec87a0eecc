//! What was promised is kept or fails, and what there was is not lost.

use super::*;
use crate::backend::supplied::Supplied;
use crate::buffer::{Bytes, Elements, Location, Storage};
use crate::error::Code;
use crate::thread::refusing;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};

#[test]
fn without_a_launch_thread_nothing_is_promised_and_the_next_try_works() {
    let context = context("cpu", 0, 0);
    let (n, y) = (10, context.new_buffer(40));
    let x = stored(&context, n, 3.0);
    scale(&context, x, 2.0, y, n as i64);
    let code = |result: Result<()>| result.unwrap_err().code;
    refusing(|| {
        assert_eq!(code(context.cut()), Code::OutOfMemory);
        assert_eq!(code(context.sync()), Code::OutOfMemory);
        assert_eq!(code(context.request(y)), Code::OutOfMemory);
        assert_eq!(code(context.read(y, 0, &mut [0; 40])), Code::OutOfMemory);
        assert_eq!(floats(&context, x, n), [3.0; 10]);
    });
    assert!(!context.is_ready(y));
    assert_eq!(floats(&context, y, n), [6.0; 10]);
    context.sync().unwrap();
}

#[test]
fn a_reading_thread_that_did_not_start_is_asked_for_again() {
    let context = context("cpu", 0, 0);
    let x = stored(&context, 2, 3.0);
    let given = Arc::new(());
    let elements = Box::new(CountedBytes(vec![0; 8], given.clone()));
    let refused =
        refusing(|| context.read_later(x, view(2), elements, Box::new(|_| unreachable!())));
    assert_eq!(refused.unwrap_err().code, Code::OutOfMemory);
    // Nobody copies to it any more: it is the caller's.
    assert_eq!(Arc::strong_count(&given), 1);
    assert_eq!(read_later(&context, x, 2).recv().unwrap(), [3.0; 2]);
}

struct CountedBytes(Vec<u8>, #[expect(dead_code, reason = "counted")] Arc<()>);

impl AsMut<[u8]> for CountedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

fn numbers(read: Result<Elements>) -> Vec<f32> {
    let bytes = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
    (*read.unwrap()).as_mut().chunks(4).map(bytes).collect()
}

fn read_later(context: &Context, id: BufferId, n: usize) -> Receiver<Vec<f32>> {
    let (tell, notified) = channel();
    let done = move |read| tell.send(numbers(read)).unwrap();
    context.read_later(id, view(n as i64), Box::new(vec![0; 4 * n]), Box::new(done)).unwrap();
    notified
}

/// As snapshots of a training's state are, whose next step updates it in place.
#[test]
fn a_copy_is_of_what_was_there_and_the_update_of_it_takes_no_memory() {
    let (context, n) = (context("cpu", 0, 0), 1 << 16);
    let (x, y) = (stored(&context, n, 1.0), stored(&context, n, 1.0));
    let (mut copies, mut blocks) = (Vec::new(), 0);
    for step in 0..100 {
        copies.push((read_later(&context, x, n), read_later(&context, y, n)));
        if step % 3 == 0 {
            copies.push((read_later(&context, y, n), read_later(&context, x, n)));
        }
        scale(&context, x, 0.5, x, n as i64);
        scale(&context, x, 4.0, x, n as i64);
        scale(&context, y, 0.5, y, n as i64);
        context.cut().unwrap();
        if step == 5 {
            context.sync().unwrap();
            blocks = context.shared.backend.pool().stats().fresh_blocks;
        }
    }
    let (mut of_x, mut of_y) = (1f32, 1f32);
    let mut copies = copies.into_iter();
    for step in 0..100 {
        let (x, y) = copies.next().unwrap();
        assert!(x.recv().unwrap().iter().all(|&got| got == of_x), "step {step}");
        assert!(y.recv().unwrap().iter().all(|&got| got == of_y), "step {step}");
        if step % 3 == 0 {
            let (y, x) = copies.next().unwrap();
            assert!(x.recv().unwrap().iter().all(|&got| got == of_x), "step {step}");
            assert!(y.recv().unwrap().iter().all(|&got| got == of_y), "step {step}");
        }
        (of_x, of_y) = (of_x * 2.0, of_y * 0.5);
    }
    context.sync().unwrap();
    assert_eq!(context.shared.observed.stats.compiles.get(), 1);
    assert_eq!(context.shared.backend.pool().stats().fresh_blocks, blocks);
}

#[test]
fn memory_that_somebody_looks_at_stays_and_what_is_taken_is_a_copy() {
    let context = context("cpu", 0, 0);
    let allocate = |nbytes| context.shared.allocate(nbytes);
    let mut memory = allocate(8).unwrap();
    memory.write(0, &[7; 8]).unwrap();
    let storage = Storage::ready(memory);
    let look = |bytes: &dyn Bytes| {
        let mut taken = storage.take(allocate)?.into_bytes()?;
        let mut copied = [0; 8];
        taken.read(0, &mut copied)?;
        taken.write(0, &[1; 8])?;
        assert_eq!((copied, bytes.on_host()), ([7; 8], Some(&[7; 8][..])));
        Ok(())
    };
    assert!(storage.visit(look).unwrap());
    assert!(!storage.visit(|_| unreachable!("it was taken")).unwrap());
    assert!(storage.take(allocate).is_err());
}

/// Whoever waits for the program may hold what the call waits for.
#[test]
fn a_program_waits_for_no_call_that_tells_of_a_copy() {
    let context = context("cpu", 0, 0);
    let (x, y) = (stored(&context, 2, 3.0), stored(&context, 2, 5.0));
    let interpreter = Arc::new(Mutex::new(()));
    let held = interpreter.lock();
    let lock = interpreter.clone();
    let wait = move |_| drop(lock.lock());
    context.read_later(x, view(2), Box::new(vec![0; 8]), Box::new(wait)).unwrap();
    let before = read_later(&context, y, 2);
    scale(&context, x, 2.0, x, 2);
    scale(&context, y, 2.0, y, 2);
    context.sync().unwrap();
    assert_eq!((floats(&context, x, 2), floats(&context, y, 2)), (vec![6.0; 2], vec![10.0; 2]));
    drop(held);
    assert_eq!(before.recv().unwrap(), [5.0; 2]);
}

/// As an interpreter's lock is: whoever drops the last handle holds what a callback waits for.
#[test]
fn nobody_waits_for_callbacks_and_all_of_them_come() {
    let context = context("cpu", 0, 0);
    let (x, y) = (stored(&context, 2, 3.0), context.new_buffer(8));
    scale(&context, x, 2.0, y, 2);
    let interpreter = Arc::new(Mutex::new(()));
    let held = interpreter.lock();
    let (tell, notified) = channel();
    for id in [x, y] {
        let (interpreter, tell) = (interpreter.clone(), tell.clone());
        let done = move |read| {
            let _held = interpreter.lock();
            tell.send(numbers(read)).unwrap();
        };
        context.read_later(id, view(2), Box::new(vec![0; 8]), Box::new(done)).unwrap();
    }
    let shared = Arc::downgrade(&context.shared);
    drop(context);
    assert!(shared.upgrade().is_none());
    drop(held);
    for wanted in [3f32, 6.0] {
        assert_eq!(notified.recv().unwrap(), [wanted; 2]);
    }
    drop(tell);
    // The thread gave up its part: it has nothing left to do.
    assert!(notified.recv().is_err());
}

#[test]
fn a_buffer_that_cannot_grow_keeps_what_it_holds() {
    let context = context("cpu", 0, 0);
    let allocate = |nbytes: usize| match nbytes {
        ..1000 => {
            let memory = Box::leak(vec![0u8; nbytes + 64].into_boxed_slice());
            memory.as_ptr().expose_provenance().next_multiple_of(64)
        }
        _ => 0,
    };
    let (allocate, release) = (Box::new(allocate), Box::new(|_, _| ()));
    context.set_supply(Supplied { location: Location::HOST, allocate, release }).unwrap();
    let x = stored(&context, 4, 5.0);
    assert_eq!(context.resize(x, 4000).unwrap_err().code, Code::OutOfMemory);
    assert_eq!((context.nbytes(x), floats(&context, x, 4)), (16, vec![5.0; 4]));
    context.resize(x, 32).unwrap();
    assert_eq!(floats(&context, x, 8), [5.0, 5.0, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0]);
    context.resize(x, 8).unwrap();
    assert_eq!((context.nbytes(x), floats(&context, x, 2)), (8, vec![5.0; 2]));
}

#[test]
fn a_context_that_a_panic_left_half_changed_refuses_and_says_why() {
    let (context, other) = (context("cpu", 0, 0), context("cpu", 0, 0));
    let (x, kept) = (stored(&context, 2, 1.0), stored(&other, 2, 4.0));
    let nobodys = 1000;
    let panic = catch_unwind(AssertUnwindSafe(|| context.mark_dynamic(nobodys, 1, 1, 1)));
    lock::panicked(crate::error::panic_text(&*panic.unwrap_err()));
    let refused = [
        context.write(x, &[0; 8]),
        context.read(x, 0, &mut [0; 8]),
        context.resize(x, 16),
        context.cut(),
        context.sync(),
        context.check(),
        context.trim(),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert_eq!(error.code, Code::Panic);
        assert!(error.message.contains("index out of bounds"), "{error}");
    }
    // The first cause stays.
    lock::panicked("another");
    assert!(!context.cut().unwrap_err().message.contains("another"));
    assert_eq!(context.nbytes(x), 8);
    context.drop_buffer(x);
    assert_eq!(floats(&other, kept, 2), [4.0; 2]);
    other.sync().unwrap();
}

#[test]
fn trimming_gives_back_what_is_kept_and_the_next_step_takes_it_anew() {
    let context = context("cpu", 0, 0);
    let n = 1 << 16;
    let (x, y) = (stored(&context, n, 1.0), context.new_buffer(4 * n));
    let step = || {
        // What is between them is in the arena.
        scale(&context, x, 2.0, y, n as i64);
        let sum = Operator::Native(crate::aten::find("aten::cumsum").unwrap());
        let view = view(n as i64);
        for _ in 0..2 {
            let args = [ArgRef::Tensor(TensorRef::new(y, &view)), ArgRef::Int(0), ArgRef::None];
            let outs = [TensorRef::new(y, &view)];
            context.record(&crate::trace::Call { op: sum, args: &args, outs: &outs }).unwrap();
        }
        context.sync().unwrap();
        floats(&context, y, n)[n - 1]
    };
    let first = step();
    context.drop_buffer(context.new_buffer(8));
    let used = context.memory();
    context.trim().unwrap();
    let trimmed = context.memory();
    assert!(trimmed.live_bytes < used.live_bytes, "{used:?} {trimmed:?}");
    assert_eq!(trimmed.pool_bytes, 0);
    assert_eq!(trimmed.live_bytes, 2 * 4 * n as u64);
    assert_eq!(step(), first);
    assert_eq!(context.memory().live_bytes, used.live_bytes);
}
