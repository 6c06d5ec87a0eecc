//! Collectives between the processes (or threads) of a program: host operators that call what the program gave for its
//! communicator. A recorded collective names its communicator by a scalar, so that every rank runs the same program.
//!
//! Each takes and gives the communicator's *token*, a tensor whose bytes mean nothing: so collectives of a communicator
//! depend on one another, in the order of recording, and run though nobody wants their results. A rank that left one out
//! would let the others wait for ever.

use super::host::{self, HostArg, HostOp, HostOpId, HostTensor};
use super::{Attr, Attrs, Ty};
use crate::buffer::Location;
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::record::Arg;
use crate::{internal, invalid};
use parking_lot::RwLock;
use smallvec::smallvec;
use std::sync::{Arc, OnceLock, Weak};

/// Type of a token.
pub const TOKEN: (DType, [i64; 1]) = (DType::I32, [1]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    AllToAll,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::AllReduce, "torchacc::all_reduce"),
    (Kind::AllGather, "torchacc::all_gather"),
    (Kind::ReduceScatter, "torchacc::reduce_scatter"),
    (Kind::Broadcast, "torchacc::broadcast"),
    (Kind::AllToAll, "torchacc::all_to_all"),
];

/// How elements of several ranks become one; by their numbers in the ABI.
pub const REDUCTIONS: [&str; 5] = ["sum", "product", "min", "max", "avg"];

/// Does one kind of collective: `how` is the number of a reduction or the root. Fills the second tensor from the first.
pub type Function = Box<dyn Fn(i64, &HostTensor, &HostTensor) -> Result<()> + Send + Sync>;

/// As [`Function`], of tensors in a device's memory: put on the location's queue.
pub type DeviceFunction =
    Box<dyn Fn(Location, i64, &HostTensor, &HostTensor) -> Result<()> + Send + Sync>;

pub struct Communicator {
    /// For messages.
    pub name: String,
    pub rank: i64,
    pub size: i64,
    /// By [`Kind`].
    pub functions: [Option<Function>; 5],
    /// Likewise. Without one the function is called, with copies.
    pub device_functions: [Option<DeviceFunction>; 5],
}

static TABLE: RwLock<Vec<Weak<Communicator>>> = RwLock::new(Vec::new());

/// A number for the communicator, good for as long as somebody keeps it.
pub fn register(communicator: &Arc<Communicator>) -> u64 {
    // Programs from disk name the operators by their keys; one makes them all.
    operator(Kind::AllReduce);
    let mut table = TABLE.write();
    table.push(Arc::downgrade(communicator));
    table.len() as u64 - 1
}

static OPERATORS: OnceLock<[HostOpId; 5]> = OnceLock::new();

/// The collective that a node of `Op::Host` with these attributes is, and how it is done.
pub fn of(attrs: &[Attr]) -> Option<(Kind, i64)> {
    let [Attr::Int(id), _, Attr::Args(args)] = attrs else { return None };
    let at = OPERATORS.get()?.iter().position(|known| i64::from(*known) == *id)?;
    match args.get(1) {
        Some(Arg::Int(how)) => Some((KINDS[at].0, *how)),
        _ => None,
    }
}

/// Attributes of a node of `Op::Host` with the operands `x`, number, token and rank, as `args` have them.
pub fn attrs(kind: Kind, result: Ty, args: Vec<Arg>) -> Attrs {
    let types = vec![result, Ty::new(TOKEN.0, &TOKEN.1)];
    smallvec![Attr::Int(operator(kind) as i64), Attr::Types(types), Attr::Args(args)]
}

/// Attributes of another collective of the same communicator.
pub fn again(kind: Kind, how: i64, result: Ty, before: &[Attr]) -> Attrs {
    let mut args = match before {
        [_, _, Attr::Args(args)] => args.clone(),
        _ => Vec::new(),
    };
    if let Some(arg) = args.get_mut(1) {
        *arg = Arg::Int(how);
    }
    attrs(kind, result, args)
}

/// The host operator of a kind: `(x, how, communicator, token, rank)` → `(y, token)`.
fn operator(kind: Kind) -> HostOpId {
    let made = OPERATORS.get_or_init(|| {
        KINDS.map(|(kind, name)| {
            let function =
                Box::new(move |args: &[HostArg], outs: &[HostTensor]| run(kind, None, args, outs));
            let on_device = move |location: Location, args: &[HostArg], outs: &[HostTensor]| {
                run(kind, Some(location), args, outs)
            };
            host::register(HostOp {
                name: name.into(),
                key: name.into(),
                function,
                shape: None,
                cuda: None,
                device_function: Some(Box::new(on_device)),
            })
        })
    });
    made[kind as usize]
}

/// Whether a communicator does it on a device's memory.
pub fn is_on_device(kind: Kind, communicator: u64) -> bool {
    known(communicator).is_some_and(|known| known.device_functions[kind as usize].is_some())
}

fn known(communicator: u64) -> Option<Arc<Communicator>> {
    TABLE.read().get(communicator as usize).and_then(Weak::upgrade)
}

/// `location`: of the tensors, if that is not the host.
fn run(
    kind: Kind,
    location: Option<Location>,
    args: &[HostArg],
    outs: &[HostTensor],
) -> Result<()> {
    let ([HostArg::Tensor(x), HostArg::Int(how), HostArg::Scalar { bits, .. }, _, _], [y, _]) =
        (args, outs)
    else {
        return internal!("arguments of a collective: {args:?}");
    };
    let Some(communicator) = known(*bits) else {
        return internal!("communicator {bits} is gone");
    };
    let (function, on_device) =
        (&communicator.functions[kind as usize], &communicator.device_functions[kind as usize]);
    match (location, function, on_device) {
        (None, Some(function), _) => function(*how, x, y),
        (Some(location), _, Some(function)) => function(location, *how, x, y),
        _ => {
            let message =
                format!("communicator \"{}\" was registered without it", communicator.name);
            Err(Error::new(Code::Unsupported, message))
        }
    }
}

/// What a collective of `size` ranks makes of `x`. The first dimension is what is split and put together, in the order of
/// ranks. Errors: `InvalidArgument` for a tensor without dimensions, and one that cannot be split evenly.
pub fn result(kind: Kind, x: &Ty, size: i64) -> Result<Ty> {
    let mut sizes = x.sizes.clone();
    let first = match sizes.first_mut() {
        _ if matches!(kind, Kind::AllReduce | Kind::Broadcast) => return Ok(x.clone()),
        Some(first) => first,
        None => return invalid!("a tensor without dimensions cannot be split between ranks"),
    };
    if kind == Kind::AllGather {
        *first = match first.checked_mul(size) {
            Some(gathered) => gathered,
            None => return invalid!("{first} rows of {size} ranks overflow"),
        };
    } else if *first % size != 0 {
        return invalid!("{first} rows cannot be split between {size} ranks");
    } else if kind == Kind::ReduceScatter {
        *first /= size;
    }
    Ok(Ty::new(x.dtype, &sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_follow_from_the_number_of_ranks() {
        let sizes = |kind, sizes: &[i64]| {
            result(kind, &Ty::new(DType::F32, sizes), 3).map(|ty| ty.sizes.to_vec()).ok()
        };
        assert_eq!(sizes(Kind::AllReduce, &[]), Some(vec![]));
        assert_eq!(sizes(Kind::Broadcast, &[2, 5]), Some(vec![2, 5]));
        assert_eq!(sizes(Kind::AllGather, &[2, 5]), Some(vec![6, 5]));
        assert_eq!(sizes(Kind::ReduceScatter, &[6, 5]), Some(vec![2, 5]));
        assert_eq!(sizes(Kind::AllToAll, &[6, 5]), Some(vec![6, 5]));
        for kind in [Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll] {
            assert_eq!(sizes(kind, &[]), None);
        }
        assert_eq!((sizes(Kind::ReduceScatter, &[4]), sizes(Kind::AllToAll, &[4])), (None, None));
        assert_eq!(sizes(Kind::AllGather, &[i64::MAX / 2]), None);
    }
}
