//! Graphs that OpenXLA runs instead of the context's backend: at once, and without being recorded.

use super::Context;
use super::graphs::{Number, check_numbers};
use crate::error::{Code, Error, Result};
use crate::op::Ty;
use crate::op::array::Array;
use crate::openxla::{self, Executable};
use crate::passes::decompose;
use crate::record::View;
use crate::shape::Layout;
use crate::stablehlo::Module;
use crate::trace::TensorRef;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Executables of a program, by the files of their plugins.
#[derive(Default)]
pub struct Executables(Mutex<Vec<(PathBuf, Arc<Executable>)>>);

impl Executables {
    fn get(&self, file: &Path, program: &Module) -> Result<Arc<Executable>> {
        let find = |all: &[(PathBuf, Arc<Executable>)]| {
            all.iter().find(|(other, _)| other == file).map(|(_, executable)| executable.clone())
        };
        if let Some(executable) = find(&self.0.lock()) {
            return Ok(executable);
        }
        // Without the lock: two threads may both compile, and one result is kept.
        let graph = decompose(&program.graph, &|_| false)?.into_owned();
        let client = openxla::client(file)?;
        let made = Arc::new(client.compile(&Module { graph, ..program.clone() })?);
        let mut all = self.0.lock();
        if let Some(executable) = find(&all) {
            return Ok(executable);
        }
        all.push((file.into(), made.clone()));
        Ok(made)
    }
}

impl Context {
    /// The results of a program for `inputs` and `numbers`, by the plugin in the file `plugin`, or by that of
    /// `TORCHACC_OPENXLA`. Cuts the trace if it still computes an input, and waits. Errors: `NotFound` where no plugin is named;
    /// those of reading the inputs; those of [`openxla`].
    pub fn run_on_openxla(
        &self,
        program: &Module,
        executables: &Executables,
        plugin: Option<&Path>,
        inputs: &[TensorRef],
        numbers: &[Number],
    ) -> Result<Vec<Array>> {
        let Some(file) = plugin.or(self.shared.openxla.as_deref()) else {
            let text = "no plugin of OpenXLA is named: name the file of one, or set TORCHACC_OPENXLA to it";
            return Err(Error::new(Code::NotFound, text));
        };
        check_numbers(&program.graph, numbers)?;
        let executable = executables.get(file, program)?;
        let read = |tensor: &TensorRef| {
            let layout = Layout {
                sizes: tensor.sizes.into(),
                strides: tensor.strides.into(),
                offset: tensor.offset,
            };
            let bytes = self.read_view(tensor.buffer, &View { dtype: tensor.dtype, layout })?;
            Ok(Array { ty: Ty::new(tensor.dtype, tensor.sizes), bytes })
        };
        let arrays: Vec<Array> = inputs.iter().map(read).collect::<Result<_>>()?;
        let scalars: Vec<u64> = numbers.iter().map(|number| number.1).collect();
        executable.run(&arrays, &scalars)
    }
}
