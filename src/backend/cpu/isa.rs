//! Which vector instructions this processor has, and how a kernel is compiled for each of them: the same source,
//! inlined into functions with different target features, chosen at run time.
#![cfg_attr(
    any(target_arch = "x86_64", all(target_os = "linux", target_env = "gnu")),
    expect(
        unsafe_code,
        reason = "calling functions compiled for features just detected; asking for a number"
    )
)]

#[cfg(target_arch = "aarch64")]
use super::vector::Neon;
#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};
use super::vector::{ScalarVec, Vector};
use std::sync::OnceLock;

/// Vector instruction sets in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// One number at a time; the compiler may vectorize loops over them.
    Baseline,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Avx2,
    Avx512,
}

/// A piece of work to be compiled once for each instruction set. `run` must be `#[inline(always)]`, and so must all
/// functions that it calls, or the vector instructions are lost.
pub trait Kernel {
    type Out;
    /// `V`: the vectors to compute with. `FMA`: fused multiply-add is one instruction (elsewhere it would be a slow
    /// library call).
    fn run<V: Vector, const FMA: bool>(self) -> Self::Out;
}

static CHOSEN: OnceLock<Isa> = OnceLock::new();

/// The best instruction set of this processor, or the [`limit`].
pub fn chosen() -> Isa {
    *CHOSEN.get_or_init(detect)
}

/// Limits this process to `most`, in order to see how it would run on another processor. Returns whether the limit
/// holds: not if instructions have been chosen already.
pub fn limit(most: Isa) -> bool {
    let isa = most.min(detect());
    *CHOSEN.get_or_init(|| isa) == isa
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi2");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx512, avx2) {
        (true, _) => Isa::Avx512,
        (_, true) => Isa::Avx2,
        _ => Isa::Baseline,
    }
}

/// Whether AMD made this processor.
#[cfg(target_arch = "x86_64")]
pub fn is_amd() -> bool {
    let leaf = std::arch::x86_64::__cpuid(0);
    [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

#[cfg(not(target_arch = "x86_64"))]
pub fn is_amd() -> bool {
    false
}

/// The maker's name for this processor, with its signature; empty if there is none.
#[cfg(target_arch = "x86_64")]
pub fn processor() -> String {
    use std::arch::x86_64::__cpuid;
    const NAME: std::ops::RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
    if __cpuid(0x8000_0000).eax < *NAME.end() {
        return String::new();
    }
    let signature = __cpuid(1).eax;
    let leaves = NAME.map(__cpuid).flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]);
    let name: Vec<u8> = leaves.flat_map(u32::to_le_bytes).filter(|&byte| byte != 0).collect();
    format!("{} {signature:x}", String::from_utf8_lossy(&name).trim())
}

#[cfg(not(target_arch = "x86_64"))]
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let says = |line: &&str| line.starts_with("CPU ") || line.starts_with("model name");
    let lines: std::collections::BTreeSet<&str> = text.lines().filter(says).collect();
    lines.into_iter().collect::<Vec<_>>().join(", ")
}

/// Every processor of the architecture has Neon.
#[cfg(target_arch = "aarch64")]
fn detect() -> Isa {
    Isa::Neon
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Isa {
    Isa::Baseline
}

/// Bytes of a processor's second-level cache.
pub fn cache_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: asks for a number.
        let found = unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) };
        #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
        let found = 0;
        // Not every system reports it; most processors have this much.
        if found > 0 { found as usize } else { 512 << 10 }
    })
}

/// The instruction set that kernels of this thread use: the chosen one, or the one that a test forces.
#[inline]
pub fn current() -> Isa {
    #[cfg(test)]
    if let Some(isa) = FORCED.get() {
        return isa;
    }
    chosen()
}

/// Runs `kernel` with the chosen instruction set.
#[inline]
pub fn run<K: Kernel>(kernel: K) -> K::Out {
    run_with(current(), kernel)
}

/// Runs `kernel` with an instruction set that this processor has.
#[inline]
fn run_with<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    match isa {
        // SAFETY: the processor was found to have these features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2(kernel) },
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => kernel.run::<Neon, true>(),
        _ => kernel.run::<ScalarVec<false>, false>(),
    }
}

/// The instruction sets that this processor has.
#[cfg(test)]
fn all() -> impl Iterator<Item = Isa> {
    let known = [
        Isa::Baseline,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon,
        Isa::Avx2,
        Isa::Avx512,
    ];
    known.into_iter().filter(|&isa| isa <= detect())
}

/// Runs `kernel` with every instruction set that this processor has.
#[cfg(test)]
pub fn each_isa<K: Kernel>(kernel: impl Fn() -> K) -> Vec<(Isa, K::Out)> {
    all().map(|isa| (isa, run_with(isa, kernel()))).collect()
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Isa>> = const { std::cell::Cell::new(None) };
}

/// Calls `body` for every instruction set that this processor has; kernels that it runs on this thread use that one.
#[cfg(test)]
pub fn on_each_isa(mut body: impl FnMut(Isa)) {
    for isa in all() {
        FORCED.set(Some(isa));
        body(isa);
    }
    FORCED.set(None);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
fn avx512<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<Avx512, true>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi2")]
fn avx2<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<Avx2, true>()
}

/// Declares a function whose body is compiled for each instruction set. In the body `V` and `FMA` are as in [`Kernel`].
/// The types of the arguments can use the lifetime `'a`.
macro_rules! kernel {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        $(#[$meta])*
        $vis fn $name<'a>($($arg: $ty),*) -> $ret {
            struct Args<'a> {
                $($arg: $ty,)*
                lifetime: std::marker::PhantomData<&'a ()>,
            }
            impl<'a> $crate::backend::cpu::isa::Kernel for Args<'a> {
                type Out = $ret;
                #[inline(always)]
                fn run<V: $crate::backend::cpu::vector::Vector, const FMA: bool>(self) -> $ret {
                    let Args { $($arg,)* lifetime: _ } = self;
                    $body
                }
            }
            $crate::backend::cpu::isa::run(Args { $($arg,)* lifetime: std::marker::PhantomData })
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $crate::backend::cpu::isa::kernel! { $(#[$meta])* $vis fn $name($($arg: $ty),*) -> () $body }
    };
}
pub(crate) use kernel;
