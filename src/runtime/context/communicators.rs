//! The communicators of a context, by name.

use super::Context;
use crate::error::{Code, Error, Result};
use crate::invalid;
use crate::op::collective::{Communicator, TOKEN, register};
use crate::trace::BufferId;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Default)]
pub struct Communicators(RwLock<HashMap<String, RegisteredCommunicator>>);

/// A communicator, as collectives refer to it.
#[derive(Clone)]
pub struct RegisteredCommunicator {
    pub number: u64,
    pub size: i64,
    pub rank: i64,
    pub token: BufferId,
    _kept: Arc<Communicator>,
}

impl Context {
    /// Errors: `InvalidArgument` for a name that is taken, `OutOfMemory`.
    pub fn register_communicator(&self, communicator: Communicator) -> Result<()> {
        if !communicator.overlaps(self.shared.backend.location()) {
            self.shared.backend.keep_collectives_in_order();
        }
        let token = self.new_buffer(size_of::<i32>());
        let made = self.write(token, &[0; size_of::<i32>()]).and_then(|()| {
            let mut known = self.communicators.0.write();
            let Communicator { rank, size, .. } = communicator;
            let name = communicator.name.clone();
            if known.contains_key(&name) {
                return invalid!("the context has a communicator \"{name}\" already");
            }
            let kept = Arc::new(communicator);
            let number = register(&kept);
            known.insert(name, RegisteredCommunicator { number, size, rank, token, _kept: kept });
            Ok(())
        });
        made.inspect_err(|_| self.drop_buffer(token))
    }

    /// Errors: `NotFound`.
    pub fn unregister_communicator(&self, name: &str) -> Result<()> {
        let token = self.communicator(name)?.token;
        self.communicators.0.write().remove(name);
        self.drop_buffer(token);
        Ok(())
    }

    /// The tokens of all communicators, in the order of their registration.
    pub fn tokens(&self) -> Vec<BufferId> {
        let known = self.communicators.0.read();
        let mut tokens: Vec<(u64, BufferId)> =
            known.values().map(|known| (known.number, known.token)).collect();
        tokens.sort_unstable();
        tokens.into_iter().map(|(_, token)| token).collect()
    }

    /// Errors: `NotFound`.
    pub fn communicator(&self, name: &str) -> Result<RegisteredCommunicator> {
        self.communicators.0.read().get(name).cloned().ok_or_else(|| {
            let message = format!("the context has no communicator \"{name}\"");
            Error::new(Code::NotFound, message)
        })
    }
}

/// Sizes, and strides, of every token.
pub const TOKEN_SIZES: [i64; 1] = TOKEN.1;
