//! Options, and the one place that reads the environment.

use super::bytes;
use super::patience::Patience;
use crate::backend::cpu::onednn::Search;
use crate::backend::cuda::device::Device;
use crate::backend::cuda::driver;
use crate::backend::cuda::{Cuda, memory};
use crate::backend::{Backend, cpu, null, reference};
use crate::cache::disk::Disk;
use crate::dynamic::Policy;
use crate::error::{Code, Error, Result};
use crate::invalid;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More threads are a mistake.
const MOST_THREADS: usize = 4096;
/// Recompiles at one line that are allowed silently.
const RECOMPILE_LIMIT: usize = 8;
/// Nodes from which a program may start with a quick plan.
const QUICK_FROM: usize = 2000;
/// Records after which a trace is cut automatically.
const TRACE_LIMIT: usize = 20_000;
/// Bytes of programs kept on disk.
const CACHE_LIMIT: usize = 1 << 30;
/// Operations from which a program is kept there: smaller ones are compiled as fast as they are found.
const CACHE_FROM: usize = 16;
/// Bytes that a trace may keep from being freed before it is cut automatically.
const TRACE_BYTES: usize = 1 << 30;

#[derive(Clone, Debug)]
pub struct Options {
    /// `cpu`, `cuda` (`cuda:N` for the GPU of that number), `openxla`, `auto`, `reference` or `null`: as asked for, else
    /// `TORCHACC_BACKEND`. `None`: a GPU that can be used, else `cpu`.
    pub backend: Option<String>,
    /// `LOCAL_RANK`: number of this process among those of a job on this machine, which are to have a GPU each; 0 without a job,
    /// also where that is -1.
    pub local_rank: usize,
    /// 0: `TORCHACC_NUM_THREADS`, else all cores.
    pub num_threads: usize,
    /// 0: `TORCHACC_TRACE_LIMIT`, else 20000.
    pub trace_limit: usize,
    /// 0: `TORCHACC_TRACE_BYTES`, else 1 GiB.
    pub trace_bytes: usize,
    /// `TORCHACC_ONEDNN`: a file, or `off`; else the folders given.
    pub onednn: Search,
    /// Folders with CUDA's libraries: those of `TORCHACC_CUDA`, then the folders given, then the toolkit's (`CUDA_HOME`, else
    /// the usual place).
    pub cuda: Vec<PathBuf>,
    /// `TORCHACC_OPENXLA`: the file of a plugin, which is loaded when a program is to run on it; else one that is in the folders
    /// given.
    pub openxla: Option<PathBuf>,
    /// `TORCHACC_TF32=1`: products of f32 on a GPU may round their operands to TF32.
    pub allow_tf32: bool,
    /// `TORCHACC_DETERMINISTIC=1`: no measurement decides how results are computed.
    pub deterministic: bool,
    /// Unless `TORCHACC_CUDA_GRAPHS=0`: a repeated program is queued on a GPU as a whole.
    pub cuda_graphs: bool,
    /// Unless `TORCHACC_CUDA_STREAMS=0`: copies to a GPU and from it overlap programs.
    pub cuda_streams: bool,
    /// Unless `TORCHACC_LANES=0`: collectives run while the program computes.
    pub lanes: bool,
    /// `TORCHACC_QUICK_FROM`: nodes of a graph from which its program may start with a quick plan (2000).
    pub quick_from: usize,
    /// Bytes that a program may take besides its inputs; 0: `TORCHACC_MEMORY_LIMIT`, else no limit.
    pub memory_limit: u64,
    /// `TORCHACC_HOST_MEMORY_LIMIT`: bytes of a GPU's host that the values of a program may take there to stay within that; else
    /// half of what the host has, divided by the processes that a launcher started on it (`LOCAL_WORLD_SIZE`).
    pub host_memory_limit: u64,
    /// Where programs are kept for other processes, if anywhere: `TORCHACC_CACHE_DIR`, a folder or `off`; else the
    /// user's cache folder.
    pub cache_folder: Option<PathBuf>,
    /// Bytes that they may take; 0: `TORCHACC_CACHE_LIMIT`, else 1 GiB.
    pub cache_limit: usize,
    /// `TORCHACC_CACHE_FROM`: operations of a trace from which its program is kept there (16).
    pub cache_from: usize,
    /// `TORCHACC_BUCKETS`: how sizes that vary are padded; not at all, if no policy is named.
    pub policy: Policy,
    /// `TORCHACC_RECOMPILE_LIMIT`: recompiles at one line that are allowed silently (8).
    pub recompile_limit: u64,
    /// `TORCHACC_STRICT`: events that are errors rather than warnings or counts, of `recompiles,host_calls`.
    pub strict: String,
    /// `TORCHACC_WATCHDOG`: how long a program may be silent.
    pub watchdog: Option<Patience>,
    /// `TORCHACC_DUMP`: a folder that every compiled program is written to.
    pub dump: Option<PathBuf>,
}

/// Options that the caller gives; zero and empty leave a choice open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    pub backend: &'a str,
    pub num_threads: usize,
    pub trace_limit: usize,
    pub trace_bytes: usize,
    /// Folders with vendors' libraries, as in `PATH`.
    pub library_path: &'a str,
    /// A folder, or `off`.
    pub cache_folder: &'a str,
    pub cache_limit: usize,
    /// As [`Policy::parse`] reads it.
    pub bucket_policy: &'a str,
    pub deterministic: bool,
    pub memory_limit: u64,
}

impl Options {
    /// Fills open choices from the environment, then from the defaults.
    /// Errors: an environment variable that is not a number, not a file, or no policy, where one is wanted.
    pub fn resolve(asked: Asked) -> Result<Options> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = |given: usize, name: &str, default: usize| match (given, variable(name)) {
            (0, Some(text)) => match text.parse() {
                Ok(n) => Ok(n),
                Err(_) => invalid!("{name}={text} is not a number"),
            },
            (0, None) => Ok(default),
            (given, _) => Ok(given),
        };
        let named = |name: &str| Some(name.to_string()).filter(|name| !name.is_empty());
        Ok(Options {
            backend: named(asked.backend).or(variable("TORCHACC_BACKEND")),
            local_rank: variable("LOCAL_RANK").and_then(|text| text.parse().ok()).unwrap_or(0),
            num_threads: match number(asked.num_threads, "TORCHACC_NUM_THREADS", 0)? {
                count if count > MOST_THREADS => {
                    return invalid!("{count} threads are more than {MOST_THREADS}");
                }
                count => count,
            },
            trace_limit: number(asked.trace_limit, "TORCHACC_TRACE_LIMIT", TRACE_LIMIT)?.max(1),
            policy: match named(asked.bucket_policy).or(variable("TORCHACC_BUCKETS")) {
                Some(text) => Policy::parse(&text)?,
                None => Policy::Exact,
            },
            recompile_limit: number(0, "TORCHACC_RECOMPILE_LIMIT", RECOMPILE_LIMIT)? as u64,
            strict: match variable("TORCHACC_STRICT").unwrap_or_default() {
                list if list
                    .split(',')
                    .all(|word| ["", "recompiles", "host_calls"].contains(&word)) =>
                {
                    list
                }
                list => {
                    return invalid!("TORCHACC_STRICT={list}: there are recompiles and host_calls");
                }
            },
            watchdog: variable("TORCHACC_WATCHDOG")
                .map(|text| Patience::parse(&text))
                .transpose()?,
            dump: variable("TORCHACC_DUMP").map(PathBuf::from),
            trace_bytes: number(asked.trace_bytes, "TORCHACC_TRACE_BYTES", TRACE_BYTES)?.max(1),
            onednn: match variable("TORCHACC_ONEDNN").as_deref() {
                Some("off") => Search::Off,
                Some(file) if Path::new(file).is_file() => Search::File(file.into()),
                Some(file) => {
                    return invalid!("TORCHACC_ONEDNN={file} is neither a file nor \"off\"");
                }
                None => Search::Folders(std::env::split_paths(asked.library_path).collect()),
            },
            cuda: cuda_folders(variable, asked.library_path)?,
            openxla: variable("TORCHACC_OPENXLA")
                .map(PathBuf::from)
                .or_else(|| plugin(asked.library_path)),
            allow_tf32: number(0, "TORCHACC_TF32", 0)? != 0,
            deterministic: number(asked.deterministic as usize, "TORCHACC_DETERMINISTIC", 0)? != 0,
            cuda_graphs: number(0, "TORCHACC_CUDA_GRAPHS", 1)? != 0,
            cuda_streams: number(0, "TORCHACC_CUDA_STREAMS", 1)? != 0,
            lanes: number(0, "TORCHACC_LANES", 1)? != 0,
            quick_from: number(0, "TORCHACC_QUICK_FROM", QUICK_FROM)?,
            memory_limit: match (asked.memory_limit, variable("TORCHACC_MEMORY_LIMIT")) {
                (0, Some(text)) => bytes::parse("TORCHACC_MEMORY_LIMIT", &text)?,
                (asked, _) => asked,
            },
            host_memory_limit: match variable("TORCHACC_HOST_MEMORY_LIMIT") {
                Some(text) => bytes::parse("TORCHACC_HOST_MEMORY_LIMIT", &text)?,
                None => {
                    let processes = variable("LOCAL_WORLD_SIZE").and_then(|text| text.parse().ok());
                    bytes::of_host() / 2 / processes.unwrap_or(1u64).max(1)
                }
            },
            cache_folder: match named(asked.cache_folder).or(variable("TORCHACC_CACHE_DIR")) {
                Some(off) if off == "off" => None,
                Some(folder) => Some(folder.into()),
                None => user_folder(variable),
            },
            cache_limit: number(asked.cache_limit, "TORCHACC_CACHE_LIMIT", CACHE_LIMIT)?,
            cache_from: number(0, "TORCHACC_CACHE_FROM", CACHE_FROM)?,
        })
    }
}

/// Our folder within the user's cache folder. `None` for a user without a home.
fn user_folder(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    // The XDG specification says to ignore a relative one.
    let named = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| Path::new(&home).join(".cache"));
    named.or_else(home).map(|folder| folder.join("torchacc"))
}

/// The first plugin of OpenXLA in the folders given: a file named after its folder, as in `xla_plugins` of an environment.
fn plugin(library_path: &str) -> Option<PathBuf> {
    let in_folder = |folder: PathBuf| {
        let name = folder.file_name()?.to_str()?;
        Some(folder.join(format!("{name}.so"))).filter(|file| file.is_file())
    };
    std::env::split_paths(library_path).find_map(in_folder)
}

/// Errors: `TORCHACC_CUDA` names something that is no folder.
fn cuda_folders(
    variable: impl Fn(&str) -> Option<String>,
    library_path: &str,
) -> Result<Vec<PathBuf>> {
    let named = variable("TORCHACC_CUDA").unwrap_or_default();
    let listed = |paths: &str| -> Vec<PathBuf> {
        std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()).collect()
    };
    let mut folders = listed(&named);
    if let Some(none) = folders.iter().find(|folder| !folder.is_dir()) {
        return invalid!("TORCHACC_CUDA: {} is no folder", none.display());
    }
    folders.extend(listed(library_path));
    let toolkit = variable("CUDA_HOME").unwrap_or_else(|| "/usr/local/cuda".into());
    folders.push(Path::new(&toolkit).join("lib64"));
    Ok(folders)
}

/// The backend, and a warning about a GPU that it does not use although no backend was named. Errors: see [`named`].
pub fn backend(options: &Options) -> Result<(Box<dyn Backend>, Option<String>)> {
    if let Some(name) = &options.backend {
        return Ok((named(name, options)?, None));
    }
    let Some(gpu) = driver::usable(&options.cuda) else { return Ok((cpu(options), None)) };
    Ok(match driver::open(&driver_options(options, own_gpu(options))) {
        Ok(device) => (cuda(options, device), None),
        Err(error) => {
            let warning = format!(
                "no backend is named, and the CPU computes, not {}: {}. TORCHACC_BACKEND=cpu stays with the CPU without this \
                 warning",
                gpu.name, error.message
            );
            (cpu(options), Some(warning))
        }
    })
}

/// The backend of that name, never another. Errors: there is none of that name; a GPU that cannot be used.
fn named(name: &str, options: &Options) -> Result<Box<dyn Backend>> {
    let gpu = match name.split_once(':') {
        Some(("cuda", ordinal)) => ordinal.parse().ok(),
        None if name == "cuda" => Some(own_gpu(options)),
        _ => None,
    };
    if let Some(ordinal) = gpu {
        return Ok(cuda(options, driver::open(&driver_options(options, ordinal))?));
    }
    match name {
        "cpu" => Ok(cpu(options)),
        "openxla" => Ok(Box::new(plain_cpu(options).with_engine(openxla(name, options)?))),
        // Measurements would decide how results are computed.
        "auto" if options.deterministic => Ok(cpu(options)),
        "auto" => Ok(Box::new(plain_cpu(options).with_second_engine(openxla(name, options)?))),
        "reference" => Ok(Box::new(reference::Reference::default())),
        // CUDA's kernels on the host, for tests.
        #[cfg(debug_assertions)]
        "emulated" => Ok(Box::new(crate::backend::cuda::emulated::backend())),
        "null" => Ok(Box::new(null::Null::with_lanes(options.lanes))),
        other => {
            invalid!(
                "there is no backend \"{other}\"; there are cpu, cuda, cuda:N, openxla, auto, reference and null"
            )
        }
    }
}

fn cpu(options: &Options) -> Box<dyn Backend> {
    Box::new(plain_cpu(options))
}

fn plain_cpu(options: &Options) -> cpu::Cpu {
    let cpu = cpu::Cpu::new(options.num_threads, options.onednn.clone()).with_lanes(options.lanes);
    match &options.cache_folder {
        Some(folder) if !options.deterministic => {
            cpu.with_choices(Disk::new(folder.join("products"), options.cache_limit as u64))
        }
        _ => cpu,
    }
}

/// A plugin that computes all that it can for the backend `name`. Errors: there is none, or none that can be used.
fn openxla(name: &str, options: &Options) -> Result<cpu::Engine> {
    let Some(file) = &options.openxla else {
        let text = format!(
            "the backend {name} needs a plugin of the PJRT C API: `pip install xla-cpu-pjrt` brings the CPU's, \
             TORCHACC_OPENXLA names the file of another"
        );
        return Err(Error::new(Code::NotFound, text));
    };
    let limit = options.cache_limit as u64;
    let folder = options.cache_folder.as_ref().map(|folder| folder.join("openxla"));
    cpu::Engine::new(file, folder.map(|folder| Disk::new(folder, limit)))
}

fn cuda(options: &Options, device: Arc<dyn Device>) -> Box<dyn Backend> {
    let cuda = Cuda::new(device.clone(), memory::pool(device), options.cuda_graphs);
    Box::new(cuda.with_lanes(options.lanes && options.cuda_streams))
}

/// The GPU of this process where none is named. The first where the driver does not say how many there are, or shows each
/// process its own.
fn own_gpu(options: &Options) -> u32 {
    if options.local_rank == 0 {
        return 0;
    }
    let count = driver::list(&options.cuda).map_or(1, |gpus| gpus.len().max(1));
    (options.local_rank % count) as u32
}

fn driver_options(options: &Options, ordinal: u32) -> driver::Options {
    let limit = options.cache_limit as u64;
    driver::Options {
        ordinal,
        folders: options.cuda.clone(),
        cache: options.cache_folder.as_ref().map(|folder| (folder.join("cuda"), limit)),
        allow_tf32: options.allow_tf32,
        deterministic: options.deterministic,
        one_stream: !options.cuda_streams,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::driver::tests::fake::Driver;

    fn refused(backend: &str) -> (Code, String) {
        let options = Options::resolve(Asked { backend, ..Asked::default() }).unwrap();
        let error = super::backend(&options).err().unwrap();
        (error.code, error.message)
    }

    /// Also where there are GPUs: there are not so many.
    #[test]
    fn a_gpu_that_cannot_be_used_is_an_error_and_never_another_backend() {
        let (code, message) = refused("cuda:4096");
        assert_eq!(code, Code::Unsupported, "{message}");
        assert!(message.starts_with("CUDA cannot be used: "), "{message}");
    }

    /// What there is with this driver where no backend is named: its name, and what is said.
    fn unnamed(driver: &Driver) -> (&'static str, Option<String>) {
        let resolved = Options::resolve(Asked { cache_folder: "off", ..Asked::default() }).unwrap();
        let cuda = [vec![driver.folder().to_path_buf()], resolved.cuda.clone()].concat();
        let options = Options { backend: None, cuda, ..resolved };
        let (backend, warning) = super::backend(&options).unwrap();
        (backend.name(), warning)
    }

    #[test]
    fn a_gpu_that_can_be_used_is_the_default() {
        let Some(driver) = Driver::new("default", &[]) else { return };
        assert_eq!(unnamed(&driver), ("cuda", None));
    }

    #[test]
    fn a_gpu_that_does_not_open_leaves_the_cpu_and_says_why() {
        let occupied = "-DRETAIN=CUDA_ERROR_OUT_OF_MEMORY";
        let Some(driver) = Driver::new("unnamed-occupied", &[occupied]) else { return };
        let (backend, warning) = unnamed(&driver);
        let warning = warning.unwrap();
        assert_eq!(backend, "cpu");
        for said in ["the CPU computes, not Fake GPU", "does not open", "TORCHACC_BACKEND=cpu"] {
            assert!(warning.contains(said), "{said} in {warning}");
        }
    }

    #[test]
    fn nothing_is_said_where_there_is_no_gpu_or_none_that_could_be_used() {
        for (name, define) in [
            ("no-gpu", "-DINIT=CUDA_ERROR_NO_DEVICE"),
            ("mismatch", "-DINIT=CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
            ("old", "-DCAPABILITY=61"),
        ] {
            let Some(driver) = Driver::new(&format!("unnamed-{name}"), &[define]) else { return };
            assert_eq!(unnamed(&driver), ("cpu", None), "{name}");
        }
    }

    #[test]
    fn a_gpu_that_cannot_be_used_says_why_when_it_is_named() {
        for (name, define, why) in [
            ("mismatch", "-DINIT=CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "Restart the machine"),
            ("ancient", "-DcuLaunchKernel=none", "cuLaunchKernel"),
            ("old", "-DCAPABILITY=61", "compute capability 6.1"),
            ("behind", "-DVERSION=11040", "update the driver"),
            ("forked", "-DINIT=CUDA_ERROR_NOT_INITIALIZED", "forkserver"),
            ("streams", "-DSTREAM=CUDA_ERROR_OUT_OF_MEMORY", "TORCHACC_BACKEND=cpu"),
            ("occupied", "-DRETAIN=CUDA_ERROR_OUT_OF_MEMORY", "(Fake GPU) does not open"),
        ] {
            let Some(driver) = Driver::new(&format!("named-{name}"), &[define]) else { return };
            let asked = Asked { cache_folder: "off", ..Asked::default() };
            let resolved = Options::resolve(asked).unwrap();
            let cuda = [vec![driver.folder().to_path_buf()], resolved.cuda.clone()].concat();
            let options = Options { backend: Some("cuda".into()), cuda, ..resolved };
            let error = super::backend(&options).err().unwrap().message;
            assert!(error.contains(why), "{why} in {error}");
        }
    }

    #[test]
    fn processes_of_a_job_share_out_the_gpus() {
        let ordinal = |gpus: &str, local_rank: usize| {
            let driver = Driver::new(&format!("shared-{gpus}"), &[&format!("-DGPUS={gpus}")])?;
            let resolved = Options::resolve(Asked::default()).unwrap();
            let cuda = [vec![driver.folder().to_path_buf()], resolved.cuda.clone()].concat();
            Some(own_gpu(&Options { local_rank, cuda, ..resolved }))
        };
        let Some(first) = ordinal("4", 0) else { return };
        assert_eq!(first, 0);
        assert_eq!([1, 3, 5].map(|rank| ordinal("4", rank)), [Some(1), Some(3), Some(1)]);
        assert_eq!(ordinal("1", 3), Some(0));
    }

    #[test]
    fn backends_that_there_are_not() {
        for name in ["cudas", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "Cuda"] {
            let (code, message) = refused(name);
            assert_eq!(code, Code::InvalidArgument);
            assert!(message.contains(&format!("no backend \"{name}\"")), "{message}");
        }
    }

    #[test]
    fn folders_of_cuda_come_in_their_order() {
        let here = std::env::temp_dir();
        let variable = |toolkit: Option<&'static str>| {
            let here = here.to_str().unwrap().to_string();
            move |name: &str| match name {
                "TORCHACC_CUDA" => Some(here.clone()),
                "CUDA_HOME" => toolkit.map(str::to_string),
                _ => None,
            }
        };
        let folders = |given: &[&str]| given.iter().map(PathBuf::from).collect::<Vec<_>>();
        let here = here.to_str().unwrap();
        let found = cuda_folders(variable(Some("/opt/cuda")), "/a:/b").unwrap();
        assert_eq!(found, folders(&[here, "/a", "/b", "/opt/cuda/lib64"]));
        let found = cuda_folders(variable(None), "").unwrap();
        assert_eq!(found.last().unwrap(), Path::new("/usr/local/cuda/lib64"));
        let nowhere = |_: &str| Some("/nowhere/at/all".to_string());
        assert!(cuda_folders(nowhere, "").unwrap_err().message.contains("/nowhere/at/all"));
    }
}
