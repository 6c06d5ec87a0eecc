//! Failures that were not reported yet, and the tensors that they concern.
//!
//! The error of a step is reported once: by a read of a tensor that it concerns, which is one that the step should have written
//! or that was computed from such a one, or by the next synchronisation. So an error never surfaces where its tensor is not
//! read, and a value that is there only because its update failed is never read silently.

use crate::buffer::Storage;
use crate::error::{Code, Error, Result, panic_text};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::{Arc, Weak};

/// Number of failures that are kept apart; a program that neither reads nor syncs has many, and the first ones matter.
const KEPT: usize = 16;

#[derive(Default)]
pub struct Failures(Mutex<Vec<Failure>>);

struct Failure {
    error: Error,
    concerns: Concerns,
}

/// The tensors whose read reports a failure. A synchronisation reports every one.
pub enum Concerns {
    /// These tensors; none for a step whose results are gone.
    Tensors(Vec<Weak<Storage>>),
    /// Every tensor: the operator has no results whose read could report it.
    Everybody,
}

impl Concerns {
    pub fn none() -> Concerns {
        Concerns::Tensors(Vec::new())
    }

    pub fn tensor(storage: &Arc<Storage>) -> Concerns {
        Concerns::Tensors(vec![Arc::downgrade(storage)])
    }

    fn has(&self, storage: &Arc<Storage>) -> bool {
        match self {
            Concerns::Tensors(list) => list.iter().any(|one| one.as_ptr() == Arc::as_ptr(storage)),
            Concerns::Everybody => true,
        }
    }

    pub fn add(&mut self, more: Concerns) {
        match (&mut *self, more) {
            (Concerns::Tensors(list), Concerns::Tensors(more)) => {
                list.retain(|one| one.strong_count() > 0);
                list.extend(more);
            }
            (_, Concerns::Everybody) => *self = Concerns::Everybody,
            (Concerns::Everybody, _) => {}
        }
    }
}

impl Failures {
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub fn add(&self, error: &Error, concerns: Concerns) {
        let mut failures = self.0.lock();
        if failures.len() < KEPT {
            failures.push(Failure { error: error.clone(), concerns });
            return;
        }
        let same = failures.iter().position(|known| known.error == *error);
        failures[same.unwrap_or(KEPT - 1)].concerns.add(concerns);
    }

    /// Notes that a program reads `inputs` and writes `outputs`: failures that concern an input then also concern the outputs
    /// that are computed from it, which `reached` gives.
    pub fn spread(
        &self,
        inputs: &[Arc<Storage>],
        outputs: &[Arc<Storage>],
        reached: impl Fn(&[u32]) -> Vec<u32>,
    ) {
        for Failure { concerns, .. } in &mut *self.0.lock() {
            let Concerns::Tensors(list) = &*concerns else { continue };
            let from: Vec<u32> = (0..inputs.len() as u32)
                .filter(|_| !list.is_empty())
                .filter(|&input| concerns.has(inputs[input as usize].whole()))
                .collect();
            if !from.is_empty() {
                let reached = reached(&from);
                let more = reached.iter().map(|&n| Arc::downgrade(&outputs[n as usize]));
                concerns.add(Concerns::Tensors(more.collect()));
            }
        }
    }

    /// The `outcome` of a look at a storage, or an error if there are failures that concern the storage. These are then
    /// forgotten.
    pub fn of<T>(&self, storage: &Arc<Storage>, outcome: Result<T>) -> Result<T> {
        let mut failures = self.0.lock();
        let concerning = failures.extract_if(.., |known| known.concerns.has(storage));
        let concerning = concerning.map(|known| known.error);
        match outcome {
            Ok(value) => combined(concerning).map_or(Ok(value), Err),
            Err(own) => Err(combined([own.clone()].into_iter().chain(concerning)).unwrap_or(own)),
        }
    }

    /// The failures that [`Failures::of`] would report, without forgetting them.
    pub fn peek(&self, storage: &Arc<Storage>) -> Result<()> {
        let failures = self.0.lock();
        let concerning = failures.iter().filter(|known| known.concerns.has(storage));
        combined(concerning.map(|known| known.error.clone())).map_or(Ok(()), Err)
    }

    /// All failures, as one error. They are then forgotten.
    pub fn all(&self) -> Result<()> {
        let failures = std::mem::take(&mut *self.0.lock());
        combined(failures.into_iter().map(|known| known.error)).map_or(Ok(()), Err)
    }
}

/// One error for several: that of the first, which is the cause as far as is known, with a message that contains them all.
fn combined(errors: impl Iterator<Item = Error>) -> Option<Error> {
    let mut distinct: Vec<Error> = Vec::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    let said = |error: &Error| match error.site {
        0 => error.message.clone(),
        site => format!("{}\n  recorded at <site {site}>", error.message),
    };
    let all: Vec<String> = distinct.iter().map(said).collect();
    let first = distinct.into_iter().next()?;
    Some(match &all[1..] {
        [] => first,
        later => {
            let message = format!("{}\nand later:\n{}", all[0], later.join("\n"));
            Error { message, ..first }
        }
    })
}

/// The error of a panic while a program was compiled or run.
pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    // An error that had no other way out.
    if let Some(error) = panic.downcast_ref::<Error>() {
        return error.clone();
    }
    let text = panic_text(panic);
    Error::new(Code::Panic, format!("internal error while a program was compiled or run: {text}"))
}
