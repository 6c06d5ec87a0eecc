//! Executable memory: written once, then never writable nor written again.
#![expect(unsafe_code, reason = "memory from the kernel, and a call into it")]

use std::ptr::{NonNull, null_mut};

/// Machine code in memory of its own.
pub struct Executable {
    memory: NonNull<u8>,
    len: usize,
    start: usize,
}

// SAFETY: nothing changes the memory until it is dropped.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

/// Addresses of streams, numbers, and the number of elements of each stream.
type Function = unsafe extern "C" fn(*const usize, *const f32, usize);

impl Executable {
    /// Copies `bytes` to executable memory, to be run from `start` on; `None` if the system does not allow it or has no memory.
    pub fn new(bytes: &[u8], start: usize) -> Option<Executable> {
        let len = bytes.len();
        assert!(start < len, "code starts within its bytes");
        // SAFETY: new memory, at no address in particular.
        let memory = unsafe {
            libc::mmap(
                null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let executable = Executable { memory: NonNull::new(memory.cast())?, len, start };
        // SAFETY: the memory is as long as the bytes, and nobody else knows it.
        unsafe { executable.memory.copy_from_nonoverlapping(NonNull::from(bytes).cast(), len) };
        // SAFETY: the memory is ours, and is not written again.
        let done = unsafe { libc::mprotect(memory, len, libc::PROT_READ | libc::PROT_EXEC) };
        (done == 0).then_some(executable)
    }

    /// The address of a byte of the code, valid for as long as this lives.
    pub fn address(&self, at: usize) -> *const u8 {
        assert!(at < self.len, "an address within the code");
        // SAFETY: within the memory.
        unsafe { self.memory.add(at).as_ptr() }
    }

    /// Runs the code.
    ///
    /// # Safety
    /// The code is a loop of [`super::assemble`] for as many streams and numbers. The elements at every address are as for
    /// [`JitLoop::run`](super::JitLoop::run).
    pub unsafe fn run(&self, streams: &[usize], numbers: &[f32], len: usize) {
        // SAFETY: the code keeps to the calling convention of C; the rest is the caller's promise.
        unsafe {
            let function: Function = std::mem::transmute(self.address(self.start));
            function(streams.as_ptr(), numbers.as_ptr(), len);
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the memory of `new`, which nobody runs any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.len) };
    }
}
