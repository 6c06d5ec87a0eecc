//! The device on a driver that is a small C library (`fake.c`), so that everything but the GPU is run: what is called, in
//! which order and context, with which parameters, and what becomes of errors.
#![expect(unsafe_code, reason = "asks the library what it has seen")]

use super::super::super::Cuda;
use super::super::super::cudnn_graph::CudnnGraph;
use super::super::super::device::Device;
use super::super::super::emit::{Shape, Source};
use super::super::super::lanes::Run;
use super::super::super::memory::{DeviceBytes, pool};
use super::super::{Options, list, open};
use super::folders;
use crate::backend::Backend;
use crate::backend::borrowed::Borrowed;
use crate::backend::library::{open as open_library, symbol};
use crate::buffer::{Bytes, Location};
use crate::error::{Code, Error, Result};
use crate::graph::generate::Rng;
use crate::op::collective::{Communicator, register};
use crate::plan::LaneId;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A folder with a driver, which goes in the end.
pub struct Driver(PathBuf);

impl Driver {
    /// One that is as `defines` say. `None`, loudly, where NVIDIA's headers or libraries are missing.
    pub fn new(name: &str, defines: &[&str]) -> Option<Driver> {
        let header = |folder: &PathBuf| {
            folder.parent().map(|up| up.join("include")).filter(|f| f.join("cuda.h").exists())
        };
        let Some(include) = folders().iter().find_map(header) else {
            eprintln!("SKIPPED: no cuda.h beside the folders of TORCHACC_CUDA");
            return None;
        };
        let folder =
            std::env::temp_dir().join(format!("torchacc-driver-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let driver = Driver(folder);
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/cuda/driver/tests/fake.c");
        let status = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
            .args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(driver.file())
            .args(defines)
            .arg("-I")
            .args([&include, &source])
            .status();
        assert!(status.unwrap().success());
        Some(driver)
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    fn file(&self) -> PathBuf {
        self.0.join("libcuda.so.1")
    }

    fn open(&self) -> Result<Arc<dyn Device>> {
        self.open_with(false)
    }

    fn open_with(&self, one_stream: bool) -> Result<Arc<dyn Device>> {
        let folders = [vec![self.0.clone()], folders()].concat();
        let cache = Some((self.0.join("cache"), 1 << 20));
        open(&Options { folders, cache, one_stream, ..Options::default() })
    }

    fn ask(&self, what: &str) -> i32 {
        let library = open_library(&self.file()).unwrap();
        // SAFETY: their type in `fake.c`; the device has loaded the library for good.
        unsafe { symbol::<unsafe extern "C" fn() -> i32>(&library, what).unwrap()() }
    }
}

impl Driver {
    /// What a communicator would put on a stream: both numbers at the address are one more.
    fn add(&self, stream: usize, address: usize) {
        let library = open_library(&self.file()).unwrap();
        // SAFETY: as above.
        unsafe {
            symbol::<unsafe extern "C" fn(u64, u64)>(&library, "fake_add").unwrap()(
                stream as u64,
                address as u64,
            );
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn add_one() -> Source {
    let text = "extern \"C\" __global__ void add_one(const __grid_constant__ Words<2> a) {\n\
                u64* x = (u64*)a.at[0]; if (threadIdx.x < a.at[1]) x[threadIdx.x] += 1;\n}\n";
    Source { name: "add_one".into(), text: text.into(), kernel_args: 2 }
}

/// What the driver insists on.
const SHAPE: Shape = Shape { grid: [4, 3, 2], block: 128, shared: 0 };

fn words(bytes: &[u8; 16]) -> [u64; 2] {
    [&bytes[..8], &bytes[8..]].map(|b| u64::from_le_bytes(b.try_into().unwrap()))
}

fn read(device: &dyn Device, address: usize) -> [u64; 2] {
    let mut bytes = [0; 16];
    device.read(address, &mut bytes).unwrap();
    words(&bytes)
}

#[test]
fn gpus_are_listed_without_being_opened() {
    let Some(driver) = Driver::new("list", &[]) else { return };
    let listed = list(std::slice::from_ref(&driver.0)).unwrap();
    let shown: Vec<_> = listed.iter().map(|gpu| (gpu.name.as_str(), gpu.capability)).collect();
    assert_eq!(shown, [("Fake GPU", 90)]);
}

/// Choices on disk are for those who choose in the same way.
#[test]
fn whether_algorithms_are_measured_is_in_the_fingerprint() {
    let Some(driver) = Driver::new("deterministic", &[]) else { return };
    for deterministic in [false, true] {
        let folders = [vec![driver.0.clone()], folders()].concat();
        let device = open(&Options { folders, deterministic, ..Options::default() }).unwrap();
        let said = format!("measured {}", !deterministic);
        assert!(device.fingerprint().contains(&said), "{}", device.fingerprint());
    }
}

#[test]
fn a_device_without_cudnn_says_what_it_lacks() {
    let Some(driver) = Driver::new("lacks", &[]) else { return };
    let mut folders = [vec![driver.0.clone()], folders()].concat();
    let open = |folders: &[PathBuf]| {
        open(&Options { folders: folders.into(), ..Options::default() }).unwrap()
    };
    assert_eq!(open(&folders).missing_features(), None);
    folders.retain(|folder| !folder.join("libcudnn.so.9").exists());
    let device = open(&folders);
    // Unless the system has one.
    if let Some(lack) = device.missing_features() {
        assert!(lack.contains("pip install nvidia-cudnn"), "{lack}");
        assert!(device.fingerprint().ends_with("cuDNN 0"), "{}", device.fingerprint());
    }
}

#[test]
#[ignore = "run by `dnn::tests::plans`"]
fn a_cudnn_that_does_not_start_is_said() {
    let Some(driver) = Driver::new("start", &[]) else { return };
    let device = driver.open().unwrap();
    assert_eq!(device.missing_features(), None);
    assert!(device.prepare(&CudnnGraph::default()).unwrap().is_none());
    // Unless there is a real driver, which it finds by itself.
    if !Path::new("/proc/driver/nvidia").exists() {
        let lack = device.missing_features().unwrap();
        assert!(lack.starts_with("cuDNN does not start: "), "{lack}");
    }
}

#[test]
fn memory_is_copied_in_and_out() {
    let Some(driver) = Driver::new("memory", &[]) else { return };
    let device = driver.open().unwrap();
    assert_eq!((device.limits().multiprocessors, device.limits().shared), (132, 227 << 10));
    assert!(device.fingerprint().starts_with("sm_90a x132 NVRTC 1"), "{}", device.fingerprint());
    let pool = pool(device.clone());
    let mut memory = DeviceBytes::new(&device, &pool, 10_000_001).unwrap();
    let content: Vec<u8> = (0..memory.len()).map(|i| (i * 31 % 251) as u8).collect();
    memory.write(0, &content).unwrap();
    memory.write(5, &[]).unwrap();
    let mut back = vec![0; memory.len() - 3];
    std::thread::scope(|scope| scope.spawn(|| memory.read(3, &mut back)).join().unwrap()).unwrap();
    assert!(back == content[3..]);
    assert_eq!((driver.ask("fake_inside"), driver.ask("fake_live")), (0, 1));
    let error = DeviceBytes::new(&device, &pool, 2 << 30).err().unwrap();
    assert_eq!(error.code, Code::OutOfMemory);
    assert!(error.message.contains("Fake GPU: 5 of 7 bytes are free"), "{error}");
    drop((memory, pool, device));
    assert_eq!(driver.ask("fake_live"), 0);
}

#[test]
fn kernels_are_launched_captured_and_kept() {
    let Some(driver) = Driver::new("kernels", &[]) else { return };
    let device = driver.open().unwrap();
    let address = device.allocate(16).unwrap();
    device.write(&[0; 16], address).unwrap();
    let kernels = device.load(&[add_one(), add_one()]).unwrap();
    assert!(Arc::ptr_eq(&kernels[0], &kernels[1]));
    assert!(Arc::ptr_eq(&kernels[0], &device.load(&[add_one()]).unwrap()[0]));
    let (kernel, words) = (&kernels[0], [address as u64, 2]);
    kernel.launch(SHAPE, &words).unwrap();
    kernel.launch(Shape { shared: 100 << 10, ..SHAPE }, &words).unwrap();
    kernel.launch(Shape { grid: [0, 1, 1], ..SHAPE }, &words).unwrap();
    assert_eq!(read(&*device, address), [2, 2]);
    assert_eq!(kernel.launch(SHAPE, &words[..1]).unwrap_err().code, Code::Internal);
    let error = kernel.launch(Shape { shared: 227 << 10, ..SHAPE }, &words).unwrap_err();
    assert!(error.message.contains("kernel add_one wants 232448 bytes"), "{error}");

    let captured = device.capture(&mut || {
        kernel.launch(SHAPE, &words)?;
        assert!(device.read(address, &mut [0]).is_err());
        assert!(device.write(&[0], address).is_err());
        assert!(device.synchronize().is_err());
        assert!(device.settle().is_err());
        assert!(device.queue(&mut || unreachable!("not in what is captured")).is_err());
        kernel.launch(SHAPE, &[address as u64, 1])
    });
    let graph = captured.unwrap().unwrap();
    assert_eq!(read(&*device, address), [2, 2]);
    graph.replay().unwrap();
    graph.replay().unwrap();
    assert_eq!(read(&*device, address), [6, 4]);
    // What fails is not captured, whether by itself or because of others.
    let refused = || Err(Error::new(Code::NotFound, "no"));
    assert!(device.capture(&mut { refused }).unwrap().is_none());
    let disturbed = || {
        driver.ask("fake_disturb");
        kernel.launch(SHAPE, &words)
    };
    assert!(device.capture(&mut { disturbed }).unwrap().is_none());
    assert_eq!(read(&*device, address), [6, 4]);
    device.synchronize().unwrap();
    device.settle().unwrap();
    assert_eq!(driver.ask("fake_inside"), 0);

    // Work of others is done in the device's context, on the stream that it says is its own.
    let here = device.location();
    assert!((here.device_type, here.device_id, here.is_host) == (2, 0, false) && here.stream != 0);
    let mut inside = 0;
    device
        .queue(&mut || {
            inside = driver.ask("fake_inside");
            kernel.launch(SHAPE, &[address as u64, 1])
        })
        .unwrap();
    assert_eq!((inside, driver.ask("fake_inside"), read(&*device, address)[0]), (1, 0, 7));

    drop((graph, kernels));
    device.free(address);
    assert_eq!(driver.ask("fake_live"), 0);
    // One file, for the one kernel; another device finds it.
    let is_kernel = |name: &str| name != "usage";
    let files = || {
        let all = std::fs::read_dir(driver.0.join("cache")).unwrap();
        all.filter(|file| is_kernel(file.as_ref().unwrap().file_name().to_str().unwrap())).count()
    };
    assert_eq!(files(), 1);
    driver.open().unwrap().load(&[add_one()]).unwrap();
    assert_eq!(files(), 1);
}

/// One without functions.
fn communicator() -> Communicator {
    Communicator {
        name: "ranks".into(),
        rank: 0,
        size: 1,
        functions: [const { None }; _],
        device_functions: [const { None }; _],
        together: None,
        lane: None,
    }
}

/// What one device is asked for at random, in the order of a program that knows nothing of streams: every value is what it
/// would be if each thing happened at once.
#[test]
fn streams_change_no_value() {
    // Which stream is ahead of the others: none, that of programs, to the device, from it, that of a communicator.
    for eager in ["-DEAGER=9", "-DEAGER=0", "-DEAGER=1", "-DEAGER=2", "-DEAGER=3"] {
        let Some(driver) = Driver::new(&format!("streams{eager}"), &[eager]) else { return };
        let device = driver.open().unwrap();
        let communicators = [0, 1, 2].map(|_| Arc::new(communicator()));
        let [first, second, _] = communicators.each_ref().map(register);
        let lanes = [Some(first), Some(second), None].map(|c| c.map(LaneId::Communicator));
        let kernel = device.load(&[add_one()]).unwrap().remove(0);
        let places: Vec<usize> = (0..4).map(|_| device.allocate(16).unwrap()).collect();
        let host = device.allocate_on_host(16).unwrap();
        let mut expected = [[0u64; 2]; 4];
        places.iter().for_each(|address| device.upload(&[0; 16], *address).unwrap());
        let mut random = Rng::new(7);
        for _ in 0..2000 {
            let which = random.below(4);
            let (address, value) = (places[which], &mut expected[which]);
            let mut add = || {
                value[0] += 1;
                value[1] += 1;
                kernel.launch(SHAPE, &[address as u64, 2])
            };
            match random.below(7) {
                // There and back, beside what is computed.
                6 => {
                    device.begin().unwrap();
                    add().unwrap();
                    let there = device.copy_aside(LaneId::ToHost, [address, host], 16).unwrap();
                    let other = (which + 1) % 4;
                    kernel.launch(SHAPE, &[places[other] as u64, 2]).unwrap();
                    device.join(there).unwrap();
                    kernel.launch(SHAPE, &[address as u64, 2]).unwrap();
                    let back = device.copy_aside(LaneId::FromHost, [host, address], 16).unwrap();
                    kernel.launch(SHAPE, &[places[other] as u64, 2]).unwrap();
                    match random.below(2) {
                        0 => device.join(back).unwrap(),
                        _ => device.wait_for(back).unwrap(),
                    }
                    let after = [read(&*device, address), read(&*device, places[other])];
                    expected[other] = expected[other].map(|number| number + 2);
                    assert_eq!(after, [expected[which], expected[other]]);
                }
                4 => {
                    device.begin().unwrap();
                    add().unwrap();
                    let mut collective = |here: Location| {
                        assert_ne!(here.stream, device.location().stream);
                        driver.add(here.stream, address);
                        Ok(())
                    };
                    let number = device.on_side_stream(lanes[random.below(3)], &mut collective);
                    let other = (which + 1) % 4;
                    kernel.launch(SHAPE, &[places[other] as u64, 2]).unwrap();
                    match random.below(2) {
                        0 => device.join(number.unwrap()).unwrap(),
                        _ => device.wait_for(number.unwrap()).unwrap(),
                    }
                    kernel.launch(SHAPE, &[address as u64, 2]).unwrap();
                    let after = [read(&*device, address), read(&*device, places[other])];
                    expected[which] = expected[which].map(|number| number + 2);
                    expected[other] = expected[other].map(|number| number + 1);
                    assert_eq!(after, [expected[which], expected[other]]);
                }
                0 => {
                    let bytes: [u8; 16] = std::array::from_fn(|_| random.below(256) as u8);
                    device.upload(&bytes, address).unwrap();
                    *value = words(&bytes);
                }
                1 => {
                    let mut bytes = [0; 16];
                    device.download(address, &mut bytes).unwrap();
                    assert_eq!(words(&bytes), *value);
                }
                2 => device.queue(&mut add).unwrap(),
                3 => {
                    device.begin().unwrap();
                    add().unwrap();
                    add().unwrap();
                    assert_eq!(read(&*device, address), *value);
                }
                _ if random.below(20) == 0 => device.settle().unwrap(),
                _ => {}
            }
        }
        drop(kernel);
        places.iter().for_each(|address| device.free(*address));
        device.free_on_host(host);
    }
}

/// Numbers of a device's memory that starts with these.
fn held(device: &dyn Device, numbers: [u64; 2]) -> usize {
    let address = device.allocate(16).unwrap();
    device.upload(&numbers.map(u64::to_le_bytes).concat(), address).unwrap();
    address
}

/// Whoever lends memory has let the programs' stream wait for what makes its values: copies on other streams wait, too.
#[test]
fn what_is_lent_is_read_when_it_is_there() {
    let Some(driver) = Driver::new("lent", &[]) else { return };
    let device = driver.open().unwrap();
    let address = held(&*device, [4, 7]);
    device.begin().unwrap();
    driver.add(device.location().stream, address);
    let backend = Cuda::new(device.clone(), pool(device.clone()), true);
    // SAFETY: `held` gave it, for as long as the test runs.
    let lent = backend.borrow(unsafe { Borrowed::new(address, 16, Box::new(())) });
    let mut bytes = [0; 16];
    lent.read(0, &mut bytes).unwrap();
    assert_eq!(words(&bytes), [5, 8]);
}

/// What a run leaves behind when it ends early is done before its memory is another's.
#[test]
fn a_run_that_ends_early_is_waited_for() {
    for eager in ["-DEAGER=9", "-DEAGER=1"] {
        let Some(driver) = Driver::new(&format!("early{eager}"), &[eager]) else { return };
        let device = driver.open().unwrap();
        let kernel = device.load(&[add_one()]).unwrap().remove(0);
        let [address, other] = [0, 1].map(|_| held(&*device, [4, 7]));
        let mut run = Run::new(&*device);
        device.begin().unwrap();
        kernel.launch(SHAPE, &[address as u64, 2]).unwrap();
        let mut collective = |here: Location| {
            driver.add(here.stream, other);
            Ok(())
        };
        run.put(3, device.on_side_stream(None, &mut collective).unwrap());
        drop(run);
        [address, other].iter().for_each(|to| device.upload(&[0; 16], *to).unwrap());
        device.settle().unwrap();
        assert_eq!([read(&*device, address), read(&*device, other)], [[0; 2]; 2]);
    }
}

/// A batch comes and a loss goes while a program runs.
#[test]
fn copies_do_not_wait_for_programs() {
    let Some(driver) = Driver::new("beside", &[]) else { return };
    for one_stream in [false, true] {
        let device = driver.open_with(one_stream).unwrap();
        let kernel = device.load(&[add_one()]).unwrap().remove(0);
        let [batch, parameter] = [16, 16].map(|nbytes| device.allocate(nbytes).unwrap());
        device.upload(&[0; 16], parameter).unwrap();
        device.begin().unwrap();
        let before = driver.ask("fake_kernels");
        kernel.launch(SHAPE, &[parameter as u64, 2]).unwrap();
        let content = vec![3; 2 * (4 << 20) + 1];
        let large = device.allocate(content.len()).unwrap();
        device.upload(&content, large).unwrap();
        device.upload(&[5; 16], batch).unwrap();
        let mut back = vec![0; content.len()];
        device.download(large, &mut back).unwrap();
        assert!(back == content);
        assert_eq!(driver.ask("fake_kernels") - before, i32::from(one_stream));
        assert_eq!(read(&*device, parameter), [1, 1]);
        assert_eq!(driver.ask("fake_kernels") - before, 1);
        assert_eq!(read(&*device, batch), words(&[5; 16]));
        drop(kernel);
        [batch, parameter, large].iter().for_each(|address| device.free(*address));
    }
}

#[test]
fn a_lost_context_says_so() {
    let Some(driver) = Driver::new("lost", &[]) else { return };
    let device = driver.open().unwrap();
    let kernel = device.load(&[add_one()]).unwrap().remove(0);
    let error = kernel.launch(SHAPE, &[0, 1]).unwrap_err();
    assert_eq!(error.code, Code::OperatorError);
    for part in ["launching kernel add_one", "CUDA_ERROR_ILLEGAL_ADDRESS", "restart it"] {
        assert!(error.message.contains(part), "{part} in {error}");
    }
    assert!(device.synchronize().unwrap_err().message.contains("has lost the GPU"));
    assert_eq!(device.read(256, &mut [0]).unwrap_err().code, Code::OperatorError);
    // Nothing hangs.
    drop((kernel, device));
}

#[test]
fn a_device_that_cannot_be_used_says_why() {
    for (name, define, part) in [
        ("none", "-DINIT=CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ("forked", "-DINIT=CUDA_ERROR_NOT_INITIALIZED", "\"spawn\""),
        ("streams", "-DSTREAM=CUDA_ERROR_OUT_OF_MEMORY", "making a stream: "),
        ("stub", "-DINIT=CUDA_ERROR_STUB_LIBRARY", "LD_LIBRARY_PATH"),
        ("mixed", "-DINIT=CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "Restart the machine"),
        ("unknown", "-DINIT=CUDA_ERROR_UNKNOWN", "does not start: an error (CUDA_ERROR)"),
        ("full", "-DRETAIN=CUDA_ERROR_OUT_OF_MEMORY", "GPU 0 (Fake GPU) does not open: "),
        ("older", "-DcuLaunchKernel=none", "the driver is too old: "),
        ("pascal", "-DCAPABILITY=61", "Fake GPU has compute capability 6.1"),
        (
            "kepler",
            "-DVERSION=11040",
            "too new for the driver, which supports CUDA 11.4: update the driver",
        ),
    ] {
        let Some(driver) = Driver::new(name, &[define]) else { return };
        let error = driver.open().err().unwrap();
        assert_eq!(error.code, Code::Unsupported, "{error}");
        assert!(error.message.starts_with("CUDA cannot be used: "), "{error}");
        assert!(error.message.contains(part), "{part} in {error}");
        assert!(
            error.message.ends_with("or use the backend cpu (TORCHACC_BACKEND=cpu)"),
            "{error}"
        );
    }
}
