//! Counters of the program caches.

use super::boundary;
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::borrow;
use super::sized::{self, Growing};
use crate::runtime::observe::stats::{Snapshot, metrics};

macro_rules! declared {
    ($($item:tt)*) => {
        $($item)*
        /// The source of `torchacc_cache_stats`, for the header: its generator expands no macros.
        pub const DECLARED: &str = stringify!($($item)*);
    };
}

macro_rules! cache_stats {
    ($($name:ident $(as $c:ident)?: $kind:ident, $unit:literal, $doc:literal;)*) => {
        declared! {
            #[doc = "What the caches of programs did since the last `torchacc_metrics_reset`, and what they hold now. May grow at the end."]
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct torchacc_cache_stats {
                #[doc = "`sizeof(torchacc_cache_stats)` of the caller."]
                pub struct_size: usize,
                $($(#[doc = $doc] pub $c: u64,)?)*
            }
        }

        impl torchacc_cache_stats {
            fn of(all: &Snapshot) -> torchacc_cache_stats {
                let struct_size = size_of::<torchacc_cache_stats>();
                torchacc_cache_stats { struct_size, $($($c: all.$name,)?)* }
            }
        }
    };
}
metrics!(cache_stats);

// SAFETY: plain data; zero is a value of every field; the size is first.
unsafe impl Growing for torchacc_cache_stats {
    const NAME: &'static str = "torchacc_cache_stats";
}

/// Fills in `out` up to its `struct_size`, which the caller sets; fields that an older library does not know are 0. Looks at the
/// files of the cache folder, and waits for no operation. A trace counts once it has been launched: sync first for complete
/// numbers.
/// Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_cache_stats(
    context: *mut torchacc_context,
    out: *mut torchacc_cache_stats,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let stats = unsafe { borrow(context)? }.inner.cache_stats();
        unsafe { sized::write(out, &torchacc_cache_stats::of(&stats)) }
    })
}
