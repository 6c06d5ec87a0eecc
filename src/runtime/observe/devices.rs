//! The devices that contexts can compute on.

use super::json::{Object, list};
use crate::backend::cpu;
use crate::backend::cuda::driver;
use crate::error::Result;
use crate::runtime::options::{Asked, Options};

/// The devices, as a JSON list. Errors: as [`Options::resolve`] for the libraries' paths.
pub fn devices(library_path: &str) -> Result<String> {
    let asked = Asked { library_path, ..Asked::default() };
    let options = Options::resolve(asked)?;
    let instructions = format!("{:?}", cpu::instructions()).to_lowercase();
    let host = Object::default().text("backend", "cpu").text("instructions", &instructions).end();
    let gpu = |(ordinal, known): (usize, driver::GpuInfo)| {
        Object::default()
            .text("backend", &format!("cuda:{ordinal}"))
            .text("name", &known.name)
            .text("capability", &format!("{}.{}", known.capability / 10, known.capability % 10))
            .end()
    };
    let gpus: Vec<String> = match driver::list(&options.cuda) {
        Ok(gpus) => gpus.into_iter().enumerate().map(gpu).collect(),
        Err(error) => {
            vec![Object::default().text("backend", "cuda").text("missing", &error.message).end()]
        }
    };
    Ok(list(std::iter::once(host).chain(gpus)))
}
