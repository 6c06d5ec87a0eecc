//! What the program gave runs where it may wait for other threads that call the library.

use super::*;
use crate::backend::borrowed::Borrowed;
use crate::backend::supplied::Supplied;
use crate::buffer::Location;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::spawn;
use std::time::Duration;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets another thread use the context, and waits for it: whether it came through.
fn others_get_on(context: &Arc<Context>) -> bool {
    let (context, (tell, notified)) = (context.clone(), channel());
    spawn(move || {
        let x = stored(&context, 3, 1.0);
        scale(&context, x, 2.0, x, 3);
        context.drop_buffer(x);
        tell.send(()).ok();
    });
    notified.recv_timeout(PATIENCE).is_ok()
}

/// Owner of lent memory that does not go before others have got on.
struct Owner {
    context: Arc<Context>,
    tell: Sender<bool>,
    _data: Box<[f32; 4]>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.tell.send(others_get_on(&self.context)).ok();
    }
}

/// A buffer on lent memory, and what tells when that is given back.
#[expect(unsafe_code, reason = "memory that its owner holds")]
fn lent(context: &Arc<Context>) -> (BufferId, Receiver<bool>) {
    let (tell, notified) = channel();
    let data = Box::new([1.0f32; 4]);
    let address = data.as_ptr().expose_provenance();
    let owner = Owner { context: context.clone(), tell, _data: data };
    // SAFETY: the owner holds the memory, and writes nothing to it.
    let memory = unsafe { Borrowed::new(address, 16, Box::new(owner)) };
    let id = context.new_buffer(16);
    context.lend(id, memory).unwrap();
    (id, notified)
}

#[test]
fn lent_memory_is_given_back_without_a_lock_whatever_made_it_go() {
    let context = context("cpu", 0, 0);
    let nothing = context.new_buffer(16);
    type Way<'a> = (&'a str, &'a dyn Fn(BufferId));
    let ways: [Way; 8] = [
        ("released", &|id| context.drop_buffer(id)),
        ("written", &|id| context.write(id, &[0; 16]).unwrap()),
        ("filled", &|id| context.fill(id, |_| Ok(())).unwrap()),
        ("resized", &|id| context.resize(id, 64).unwrap()),
        ("resized to nothing", &|id| context.resize(id, 0).unwrap()),
        ("lent again", &|id| {
            let (other, notified) = lent(&context);
            context.drop_buffer(id);
            context.drop_buffer(other);
            assert!(notified.recv_timeout(PATIENCE).unwrap());
        }),
        ("overwritten, with a release of the result", &|id| {
            scale(&context, nothing, 2.0, id, 4);
            context.drop_buffer(id);
            context.cut().unwrap();
        }),
        ("read by a trace that computes nothing", &|id| {
            let result = context.new_buffer(16);
            scale(&context, id, 2.0, result, 4);
            context.drop_buffer(result);
            context.drop_buffer(id);
            context.cut().unwrap();
        }),
    ];
    for (name, way) in ways {
        let (id, notified) = lent(&context);
        way(id);
        assert_eq!(notified.recv_timeout(2 * PATIENCE), Ok(true), "{name}");
    }
}

#[test]
fn the_functions_for_places_and_messages_go_without_a_lock() {
    struct Notifies(Arc<Context>, Sender<bool>);
    impl Drop for Notifies {
        fn drop(&mut self) {
            self.0.set_locator(Box::new(|| 0));
            self.1.send(others_get_on(&self.0)).ok();
        }
    }
    let context = context("cpu", 0, 0);
    let (tell, notified) = channel();
    let kept = Notifies(context.clone(), tell.clone());
    context.set_locator(Box::new(move || kept.0.nbytes(0) as Site));
    context.set_locator(Box::new(|| 0));
    assert_eq!(notified.recv_timeout(2 * PATIENCE), Ok(true));
    let kept = Notifies(context.clone(), tell);
    let line = Box::new(move |site| site + kept.0.nbytes(0) as Site);
    context.set_observer(Observer { line, warn: Box::new(|_, _| ()) });
    let line = Box::new(|site| site);
    context.set_observer(Observer { line, warn: Box::new(|_, _| ()) });
    assert_eq!(notified.recv_timeout(2 * PATIENCE), Ok(true));
}

/// An allocator that lets others get on before it takes memory back.
fn supply(context: &Arc<Context>, tell: Sender<bool>) -> Supplied {
    let context = Arc::downgrade(context);
    Supplied {
        location: Location::HOST,
        allocate: Box::new(|nbytes| {
            // It is never given back to the system.
            let memory = Box::leak(vec![0u8; nbytes + 64].into_boxed_slice());
            memory.as_ptr().expose_provenance().next_multiple_of(64)
        }),
        release: Box::new(move |_, nbytes| {
            // What the other thread uses is smaller.
            if let Some(context) = context.upgrade().filter(|_| nbytes > 64) {
                tell.send(others_get_on(&context)).ok();
            }
        }),
    }
}

#[test]
fn the_programs_allocator_is_called_without_a_lock() {
    let context = context("cpu", 0, 0);
    let (tell, notified) = channel();
    context.set_supply(supply(&context, tell)).unwrap();
    let n = 100;
    type Way<'a> = (&'a str, &'a dyn Fn(BufferId));
    let ways: [Way; 3] = [
        ("released", &|id| context.drop_buffer(id)),
        ("written", &|id| context.write(id, &[0; 400]).unwrap()),
        ("resized", &|id| context.resize(id, 0).unwrap()),
    ];
    for (name, way) in ways {
        way(stored(&context, n, 1.0));
        assert_eq!(notified.recv_timeout(2 * PATIENCE), Ok(true), "{name}");
    }
}

#[test]
fn an_allocator_that_is_refused_goes_without_a_lock() {
    struct Refused(Arc<Context>, Sender<bool>);
    impl Drop for Refused {
        fn drop(&mut self) {
            self.1.send(others_get_on(&self.0)).ok();
        }
    }
    let context = context("cpu", 0, 0);
    let (tell, notified) = channel();
    context.set_supply(supply(&context, tell.clone())).unwrap();
    let kept = Refused(context.clone(), tell.clone());
    let allocate = Box::new(move |_| kept.0.nbytes(0));
    let other = Supplied { allocate, ..supply(&context, tell) };
    assert!(context.set_supply(other).is_err());
    assert_eq!(notified.recv_timeout(2 * PATIENCE), Ok(true));
}

/// Reads a buffer for as long as it takes until `meanwhile` has ended; what was read, as floats.
fn read_slowly(
    context: &Arc<Context>,
    id: BufferId,
    n: usize,
    meanwhile: impl FnOnce(),
) -> Vec<f32> {
    let (context, (begin, began), (end, ended)) = (context.clone(), channel(), channel());
    let reader = spawn(move || {
        let mut bytes = vec![0; 4 * n];
        let look = |memory: Option<&dyn Bytes>| {
            begin.send(()).unwrap();
            ended.recv_timeout(PATIENCE).expect("what is done meanwhile ends");
            memory.unwrap().read(0, &mut bytes)
        };
        context.look(id, look).unwrap();
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    });
    began.recv().unwrap();
    meanwhile();
    end.send(()).unwrap();
    reader.join().unwrap()
}

#[test]
fn a_slow_reader_delays_no_program_and_sees_one_value() {
    let context = context("cpu", 0, 0);
    let (n, weight) = (1000, stored(&context, 1000, 3.0));
    let seen = read_slowly(&context, weight, n, || {
        // A program reads it, another one takes its memory over, and once more.
        let y = context.new_buffer(4 * n);
        scale(&context, weight, 2.0, y, n as i64);
        context.sync().unwrap();
        assert_eq!(floats(&context, y, n), vec![6.0; n]);
        for wanted in [6.0, 12.0] {
            add(&context, weight, weight, n as i64);
            context.sync().unwrap();
            assert_eq!(floats(&context, weight, n), vec![wanted; n]);
        }
    });
    assert_eq!(seen, vec![3.0; n]);
    let seen = read_slowly(&context, weight, n, || context.drop_buffer(weight));
    assert_eq!(seen, vec![12.0; n]);
}
