//! NVRTC (<https://docs.nvidia.com/cuda/nvrtc>): sources to machine code, on machines with and without a GPU.
//!
//! **Invariant:** machine code depends on the source's text, the architecture, the version and [`OPTIONS`] alone.
#![expect(unsafe_code, reason = "a C library, loaded at run time")]

use super::super::emit::{NVRTC, Source, prelude};
use super::library::{candidates, functions, open_beside};
use crate::backend::library::open;
use crate::error::{Code, Error, Result};
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;

/// The major versions whose machine code and options are known to suit; a newer one is used where it is the toolkit's.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
const OLDEST: i32 = 12;

/// Options besides the architecture. Never `--use_fast_math`: denormal numbers, division and square roots follow IEEE 754. The
/// last option adds the usage of a kernel to the log.
pub const OPTIONS: [&str; 3] = ["--std=c++17", "-default-device", "--ptxas-options=-v"];

/// Characters of a log that an error quotes.
const LOG_LIMIT: usize = 6000;

/// `nvrtcResult`; 0 is success.
type Status = c_int;
/// Opaque pointers are plain numbers here: the ABI is the same.
type NvrtcProgram = usize;

functions!(Api {
    version "nvrtcVersion" (*mut c_int, *mut c_int) -> Status;
    count_architectures "nvrtcGetNumSupportedArchs" (*mut c_int) -> Status;
    architectures "nvrtcGetSupportedArchs" (*mut c_int) -> Status;
    create "nvrtcCreateProgram" (*mut NvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> Status;
    destroy "nvrtcDestroyProgram" (*mut NvrtcProgram) -> Status;
    compile "nvrtcCompileProgram" (NvrtcProgram, c_int, *const *const c_char) -> Status;
    cubin_size "nvrtcGetCUBINSize" (NvrtcProgram, *mut usize) -> Status;
    cubin "nvrtcGetCUBIN" (NvrtcProgram, *mut c_char) -> Status;
    log_size "nvrtcGetProgramLogSize" (NvrtcProgram, *mut usize) -> Status;
    log "nvrtcGetProgramLog" (NvrtcProgram, *mut c_char) -> Status;
    error_string "nvrtcGetErrorString" (Status) -> *const c_char;
});

/// A loaded NVRTC.
pub struct Nvrtc {
    api: Api,
    pub file: PathBuf,
    /// Major and minor.
    pub version: (i32, i32),
    /// Compute capabilities times ten, ascending.
    pub architectures: Vec<u32>,
}

/// A kernel's use of a multiprocessor: registers of a thread, bytes that a thread spills (stores and loads), bytes of
/// statically declared shared memory of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub registers: u32,
    pub spills: u32,
    pub shared: u32,
}

impl Nvrtc {
    /// The first library found that `suits`. Errors: `Unsupported`, with the reason for every file.
    pub fn find(
        folders: &[PathBuf],
        suits: impl Fn(&Nvrtc) -> std::result::Result<(), String>,
    ) -> Result<Nvrtc> {
        let mut refused = Vec::new();
        for file in candidates(folders, &NAMES) {
            let found = Nvrtc::open(&file).and_then(|nvrtc| suits(&nvrtc).map(|()| nvrtc));
            match found {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) => refused.push(format!("{}: {why}", file.display())),
            }
        }
        Err(Error::new(
            Code::Unsupported,
            format!(
                "no usable NVRTC, which compiles the kernels. Install it (pip install nvidia-cuda-nvrtc for CUDA 13, \
                 nvidia-cuda-nvrtc-cu12 for CUDA 12, or NVIDIA's CUDA toolkit) or name its folder by TORCHACC_CUDA. \
                 Tried {}",
                refused.join("; ")
            ),
        ))
    }

    fn open(file: &Path) -> std::result::Result<Nvrtc, String> {
        let library = open(file)?;
        open_beside(file, "libnvrtc-builtins.so");
        let api = Api::load(library)?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY (here and below): as `nvrtc.h` says, with room for the results.
        let status = unsafe { (api.version)(&mut major, &mut minor) };
        if status != 0 || major < OLDEST {
            return Err(format!("version {major}.{minor}, not {OLDEST} or newer"));
        }
        if unsafe { (api.count_architectures)(&mut count) } != 0 {
            return Err("does not say what it compiles for".into());
        }
        let mut listed = vec![0; count.max(0) as usize];
        if unsafe { (api.architectures)(listed.as_mut_ptr()) } != 0 {
            return Err("does not say what it compiles for".into());
        }
        let architectures = listed.into_iter().map(|number| number as u32).collect();
        Ok(Nvrtc { api, file: file.into(), version: (major, minor), architectures })
    }

    /// The architecture to compile for, for a device of this compute capability (times ten): its own, else an older one of
    /// its major version, whose machine code it runs as well.
    pub fn target(&self, capability: u32) -> Option<String> {
        let runs = |a: &&u32| **a / 10 == capability / 10 && **a <= capability;
        let best = *self.architectures.iter().filter(runs).max()?;
        // The suffix `a` enables the instructions that only this architecture has.
        Some(if best == 90 { "sm_90a".into() } else { format!("sm_{best}") })
    }

    /// The machine code of a source for an architecture such as `sm_80`, and its usage.
    /// Errors: the compiler's messages, with the lines they are about; `Unsupported` for an unknown architecture.
    pub fn compile(&self, source: &Source, architecture: &str) -> Result<(Vec<u8>, Usage)> {
        let text = c_string(whole(source))?;
        let name = c_string(source.name.clone())?;
        let architecture_option = format!("--gpu-architecture={architecture}");
        let options: Vec<CString> = [&architecture_option[..]]
            .into_iter()
            .chain(OPTIONS)
            .map(|option| c_string(option.into()))
            .collect::<Result<_>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = Open { api: &self.api, program: 0 };
        let nothing = ptr::null();
        // SAFETY (here and below): as `nvrtc.h` says; the texts live until the end of the function.
        let status = unsafe {
            let (text, name) = (text.as_ptr(), name.as_ptr());
            (self.api.create)(&mut program.program, text, name, 0, nothing, nothing)
        };
        self.check(status, source, architecture, &program)?;
        let count = options.len() as c_int;
        let status = unsafe { (self.api.compile)(program.program, count, options.as_ptr()) };
        self.check(status, source, architecture, &program)?;
        let mut size = 0;
        let status = unsafe { (self.api.cubin_size)(program.program, &mut size) };
        self.check(status, source, architecture, &program)?;
        let mut cubin = vec![0u8; size];
        let status = unsafe { (self.api.cubin)(program.program, cubin.as_mut_ptr().cast()) };
        self.check(status, source, architecture, &program)?;
        Ok((cubin, usage(&program.log())))
    }

    fn check(&self, status: Status, source: &Source, target: &str, program: &Open) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        const INVALID_OPTION: Status = 5;
        let code = if status == INVALID_OPTION { Code::Unsupported } else { Code::Internal };
        // SAFETY: it returns a static text.
        let what = unsafe { CStr::from_ptr((self.api.error_string)(status)) }.to_string_lossy();
        let (major, minor) = self.version;
        let mut log = program.log();
        if let Some((end, _)) = log.char_indices().nth(LOG_LIMIT) {
            log.truncate(end);
        }
        let name = &source.name;
        Err(Error::new(
            code,
            format!("NVRTC {major}.{minor} does not compile {name} for {target}: {what}\n{log}"),
        ))
    }
}

/// An NVRTC program, destroyed on drop.
struct Open<'a> {
    api: &'a Api,
    program: NvrtcProgram,
}

impl Open<'_> {
    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY (here and below): as `nvrtc.h` says, with room for the results.
        if self.program == 0 || unsafe { (self.api.log_size)(self.program, &mut size) } != 0 {
            return String::new();
        }
        let mut log = vec![0u8; size.max(1)];
        if unsafe { (self.api.log)(self.program, log.as_mut_ptr().cast()) } != 0 {
            return String::new();
        }
        String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).into()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.program != 0 {
            // SAFETY: made by `create`, and used nowhere else.
            unsafe { (self.api.destroy)(&mut self.program) };
        }
    }
}

/// The whole text that is compiled for a source. Lines are counted from the source's own first one.
pub fn whole(source: &Source) -> String {
    format!("{NVRTC}\n{}\n#line 1 \"{}\"\n{}", prelude(), source.name, source.text)
}

fn c_string(text: String) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(Code::Internal, "a source has a zero byte"))
}

/// The most of each resource that any function in a compilation's log uses.
fn usage(log: &str) -> Usage {
    // "Used 14 registers, used 1 barriers, 1024 bytes smem"
    let largest = |unit: &str| {
        let before = log.match_indices(unit).map(|(at, _)| &log[..at]);
        before
            .filter_map(|text| text.trim_end().rsplit([' ', '\t', '\n']).next()?.parse().ok())
            .max()
    };
    Usage {
        registers: largest(" registers").unwrap_or(0),
        spills: largest(" bytes spill stores").unwrap_or(0)
            + largest(" bytes spill loads").unwrap_or(0),
        shared: largest(" bytes smem").unwrap_or(0),
    }
}
