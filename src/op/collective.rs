//! Collectives between the processes (or threads) of a program: host operators that call the functions registered for its
//! communicator. A recorded collective names its communicator by a scalar, so that every rank runs the same program.
//!
//! Each takes and returns the communicator's *token*, a tensor whose bytes mean nothing: so collectives of a communicator
//! depend on one another, in the order of recording, and run even if their results are unused. A rank that left one out
//! would make the others wait forever.

use super::arg::{Arg, NodeArg};
use super::host::{self, HostArg, HostOp, HostOpId, HostTensor};
use super::lane::{CollectiveLane, Ticket};
use super::{Attr, Attrs, Ty};
use crate::buffer::Location;
use crate::dtype::DType;
use crate::error::{Code, Error, Result, Site};
use crate::shape::Dims;
use crate::{internal, invalid};
use parking_lot::RwLock;
use smallvec::smallvec;
use std::any::Any;
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
    Reduce,
    AllToAllV,
    Send,
    Receive,
}

/// Number of kinds, and of those, the first ones, that may run on a device's memory.
pub const KIND_COUNT: usize = 9;
pub const DEVICE_KIND_COUNT: usize = 7;

const KINDS: [(Kind, &str); KIND_COUNT] = [
    (Kind::AllReduce, "torchacc::all_reduce"),
    (Kind::AllGather, "torchacc::all_gather"),
    (Kind::ReduceScatter, "torchacc::reduce_scatter"),
    (Kind::Broadcast, "torchacc::broadcast"),
    (Kind::AllToAll, "torchacc::all_to_all"),
    (Kind::Reduce, "torchacc::reduce"),
    (Kind::AllToAllV, "torchacc::all_to_all_v"),
    (Kind::Send, "torchacc::send"),
    (Kind::Receive, "torchacc::receive"),
];

/// How many times slower than memory a collective moves data.
pub const SLOWDOWN: u64 = 16;

/// Reductions of the elements of several ranks, by their numbers in the ABI.
pub const REDUCTIONS: [&str; 8] = ["sum", "product", "min", "max", "avg", "band", "bor", "bxor"];

/// A collective's parameters beside its tensors: the number of a reduction, the root, for an all-gather one of [`gathered`], else
/// 0; for a reduce both, for an all_to_all_v the rows for and from each rank, for point to point the other rank and the tag.
pub type Numbers = Dims;

/// What an all-gather gathers: other ranks may give something else the next time, even if this one gives the same.
pub mod gathered {
    pub const ANYTHING: i64 = 0;
    /// Sharded parameters.
    pub const PARAMETERS: i64 = 1;
    /// Those that were gathered last, of which no rank has changed its part since: the result is the same.
    pub const PARAMETERS_AGAIN: i64 = 2;
}

/// Performs one kind of collective, as [`Numbers`] say. Fills the second tensor from the first; one that a kind lacks is absent.
pub type Function = Box<dyn Fn(&[i64], &HostTensor, &HostTensor) -> Result<()> + Send + Sync>;

/// As [`Function`], for tensors in a device's memory: put on the location's queue.
pub type DeviceFunction =
    Box<dyn Fn(Location, &[i64], &HostTensor, &HostTensor) -> Result<()> + Send + Sync>;

/// Performs the first of the collectives that wait on a communicator's lane, and as many of the following as it likes; returns
/// their number. Each is given with the number of earlier ones that must be done before it ([`needed`]).
pub type Together = Box<dyn Fn(&[(&Pending, usize)]) -> (usize, Result<()>) + Send + Sync>;

/// A collective whose operands are ready, which any thread may perform.
pub struct Pending {
    pub kind: Kind,
    pub numbers: Numbers,
    pub input: HostTensor,
    pub output: HostTensor,
    /// Where it was recorded.
    pub site: Site,
    communicator: u64,
    /// Copies of operands, which `input` may point into.
    _kept: Box<dyn Any + Send + Sync>,
}

pub struct Communicator {
    /// For messages.
    pub name: String,
    pub rank: i64,
    pub size: i64,
    /// By [`Kind`].
    pub functions: [Option<Function>; KIND_COUNT],
    /// Likewise. Without one the function is called, with copies.
    pub device_functions: [Option<DeviceFunction>; DEVICE_KIND_COUNT],
    /// If given, it is called instead of `functions` for collectives on a lane.
    pub together: Option<Together>,
    /// The lane on which its functions may run beside those of other communicators.
    pub lane: Option<CollectiveLane<Pending>>,
}

impl Communicator {
    /// Runs as `numbers` say, from `x` to `y`, which are in the memory of `location`, or the host's.
    fn run(
        &self,
        kind: Kind,
        location: Option<Location>,
        (numbers, x, y): (&[i64], &HostTensor, &HostTensor),
    ) -> Result<()> {
        match (location, &self.functions[kind as usize], self.device_function(kind)) {
            (None, Some(function), _) => function(numbers, x, y),
            (Some(location), _, Some(function)) => function(location, numbers, x, y),
            _ => {
                let message = format!("communicator \"{}\" was registered without it", self.name);
                Err(Error::new(Code::Unsupported, message))
            }
        }
    }

    /// Whether its collectives on memory at `location` may run beside those of other communicators and need not block the program:
    /// on a device, all but those from one rank to another are done there.
    pub fn overlaps(&self, location: Location) -> bool {
        let of_device = self.functions.iter().zip(&self.device_functions);
        let has_all = || of_device.into_iter().all(|(host, own)| host.is_none() || own.is_some());
        self.lane.is_some() && (location.is_host || has_all())
    }

    fn device_function(&self, kind: Kind) -> Option<&DeviceFunction> {
        self.device_functions.get(kind as usize)?.as_ref()
    }
}

static TABLE: RwLock<Vec<Weak<Communicator>>> = RwLock::new(Vec::new());

/// Registers a communicator; the number is valid for as long as it is kept alive.
pub fn register(communicator: &Arc<Communicator>) -> u64 {
    // Programs from disk name the operators by their keys; this registers all of them.
    operator(Kind::AllReduce);
    let mut table = TABLE.write();
    table.push(Arc::downgrade(communicator));
    table.len() as u64 - 1
}

static OPERATORS: OnceLock<[HostOpId; KIND_COUNT]> = OnceLock::new();

/// Whether this process has had a communicator.
pub fn is_used() -> bool {
    OPERATORS.get().is_some()
}

/// Kind and parameters of the collective that a node of `Op::Host` with these attributes is.
pub fn of(attrs: &[Attr]) -> Option<(Kind, Numbers)> {
    let [Attr::Int(id), _, Attr::Args(args)] = attrs else { return None };
    let at = OPERATORS.get()?.iter().position(|known| i64::from(*known) == *id)?;
    match args.get(1) {
        Some(Arg::Int(number)) => Some((KINDS[at].0, smallvec![*number])),
        Some(Arg::Ints(numbers)) => Some((KINDS[at].0, numbers.clone())),
        _ => None,
    }
}

/// Attributes of a node of `Op::Host` with the operands `x` (if there is one), number, token and rank, as `args` have them.
pub fn attrs(kind: Kind, result: Option<Ty>, args: Vec<NodeArg>) -> Attrs {
    let types = result.into_iter().chain([Ty::new(TOKEN.0, &TOKEN.1)]).collect();
    smallvec![Attr::Int(operator(kind) as i64), Attr::Types(types), Attr::Args(args)]
}

/// Attributes of another collective of the same communicator.
pub fn again(kind: Kind, how: NodeArg, result: Ty, before: &[Attr]) -> Attrs {
    let mut args = match before {
        [_, _, Attr::Args(args)] => args.clone(),
        _ => Vec::new(),
    };
    if let Some(arg) = args.get_mut(1) {
        *arg = how;
    }
    attrs(kind, Some(result), args)
}

/// The host operator of a kind: `(x?, how, communicator, token, rank)` → `(y?, token)`.
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

/// Positions of the operands of a collective's node.
pub struct Operands {
    /// This rank's tensor.
    pub given: Option<usize>,
    /// A scalar.
    pub communicator: usize,
    pub token: usize,
}

pub fn operands(kind: Kind) -> Operands {
    let given = (kind != Kind::Receive).then_some(0);
    let communicator = given.map_or(0, |given| given + 1);
    Operands { given, communicator, token: communicator + 1 }
}

/// Whether a communicator has a lane.
pub fn has_lane(communicator: u64) -> bool {
    known(communicator).is_some_and(|known| known.lane.is_some())
}

/// A lane for the collectives of a communicator.
pub fn lane() -> CollectiveLane<Pending> {
    CollectiveLane::new(perform)
}

/// Puts a collective on the lane of its communicator ([`CollectiveLane::put`]); `None`, without performing it, if that has no
/// lane or is not registered any more.
pub fn put(communicator: u64, before: Option<Ticket>, work: Pending) -> Result<Option<Ticket>> {
    match known(communicator) {
        Some(known) => known.lane.as_ref().map(|lane| lane.put(before, work)).transpose(),
        None => Ok(None),
    }
}

/// Performs the first of the collectives on a lane, or several.
fn perform(waiting: &[&Pending]) -> (usize, Result<()>) {
    let first = waiting[0];
    let Some(communicator) = known(first.communicator) else {
        return (1, invalid!("its communicator is not registered any more"));
    };
    host::set_running_site(first.site);
    let has_function = |one: &&&Pending| communicator.functions[one.kind as usize].is_some();
    let count = waiting.iter().take_while(has_function).count();
    match &communicator.together {
        Some(together) if count > 0 => {
            let waiting = &waiting[..count];
            let needs: Vec<_> =
                (0..waiting.len()).map(|n| (waiting[n], needed(&waiting[..=n]))).collect();
            together(&needs)
        }
        _ => (1, communicator.run(first.kind, None, (&first.numbers, &first.input, &first.output))),
    }
}

/// Whether a communicator performs a kind on a device's memory.
pub fn is_on_device(kind: Kind, communicator: u64) -> bool {
    known(communicator).is_some_and(|known| known.device_function(kind).is_some())
}

/// The name, for messages. `None` if it is not registered any more.
pub fn name(communicator: u64) -> Option<String> {
    Some(known(communicator)?.name.clone())
}

fn known(communicator: u64) -> Option<Arc<Communicator>> {
    TABLE.read().get(communicator as usize).and_then(Weak::upgrade)
}

/// The number of these, from the first on, that must be done before the last: up to the latest one that writes where the last
/// reads or writes, or reads where the last writes.
fn needed(waiting: &[&Pending]) -> usize {
    let Some((last, before)) = waiting.split_last() else { return 0 };
    let meet = |a: &HostTensor, b: &HostTensor| {
        let (a, b) = (a.bytes(), b.bytes());
        !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
    };
    let needs = |one: &&Pending| {
        meet(&one.output, &last.input)
            || meet(&one.output, &last.output)
            || meet(&one.input, &last.output)
    };
    before.iter().rposition(needs).map_or(0, |at| at + 1)
}

impl Pending {
    /// From the arguments and results of its host operator; `kept` is the memory that they point into.
    pub fn new(
        kind: Kind,
        (args, outs): (&[HostArg], &[HostTensor]),
        site: Site,
        kept: Box<dyn Any + Send + Sync>,
    ) -> Result<Pending> {
        let (communicator, (numbers, input, output)) = parts(args, outs)?;
        Ok(Pending {
            kind,
            numbers: numbers.into(),
            input,
            output,
            site,
            communicator,
            _kept: kept,
        })
    }
}

/// Parameters, input and output of a collective.
type Parts<'a> = (&'a [i64], HostTensor, HostTensor);

/// The communicator and the parts of a collective in the arguments and results of its host operator.
fn parts<'a>(args: &'a [HostArg], outs: &[HostTensor]) -> Result<(u64, Parts<'a>)> {
    let [x, how, HostArg::Scalar { number: bits, .. }, _, _] = args else {
        return internal!("arguments of a collective: {args:?}");
    };
    let x = if let HostArg::Tensor(x) = x { x.clone() } else { HostTensor::absent() };
    let y = if let [y, _] = outs { y.clone() } else { HostTensor::absent() };
    let numbers: &[i64] = match how {
        HostArg::Int(number) => std::slice::from_ref(number),
        HostArg::Ints(numbers) => numbers,
        _ => return internal!("a collective is done by {how:?}"),
    };
    Ok((*bits, (numbers, x, y)))
}

/// `location` is that of the tensors, if it is not the host.
fn run(
    kind: Kind,
    location: Option<Location>,
    args: &[HostArg],
    outs: &[HostTensor],
) -> Result<()> {
    let (communicator, (numbers, x, y)) = parts(args, outs)?;
    let Some(communicator) = known(communicator) else {
        return invalid!("its communicator is not registered any more");
    };
    communicator.run(kind, location, (numbers, &x, &y))
}

/// The type of the result of a collective of `size` ranks on `x`. The first dimension is split and concatenated, in the order
/// of ranks. Errors: `InvalidArgument` for a tensor without dimensions, and one that cannot be split evenly.
pub fn result(kind: Kind, x: &Ty, size: i64) -> Result<Ty> {
    let mut sizes = x.sizes.clone();
    let first = match sizes.first_mut() {
        _ if matches!(kind, Kind::AllReduce | Kind::Broadcast | Kind::Reduce) => {
            return Ok(x.clone());
        }
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

/// The type of the result of an all_to_all_v on `x`: `numbers` are the rows for each of the ranks and then those from each.
/// Errors: `InvalidArgument` if they do not fit `x` and `size`.
pub fn all_to_all_v_result(x: &Ty, numbers: &[i64], size: i64) -> Result<Ty> {
    let mut sizes = x.sizes.clone();
    let (there, back) = numbers.split_at(numbers.len() / 2);
    let total = |rows: &[i64]| rows.iter().try_fold(0i64, |sum, n| sum.checked_add(*n));
    let is_sound =
        there.len() as i64 == size && back.len() == there.len() && numbers.iter().all(|n| *n >= 0);
    match (sizes.first_mut(), total(there), total(back)) {
        (Some(first), Some(all), Some(rows)) if is_sound && *first == all => *first = rows,
        _ => return invalid!("{x} cannot be exchanged between {size} ranks by {numbers:?} rows"),
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

    #[test]
    fn an_exchange_has_the_rows_that_come() {
        let rows = |sizes: &[i64], numbers: &[i64]| {
            all_to_all_v_result(&Ty::new(DType::F32, sizes), numbers, 2)
                .map(|ty| ty.sizes.to_vec())
                .ok()
        };
        assert_eq!(rows(&[5, 3], &[4, 1, 0, 2]), Some(vec![2, 3]));
        assert_eq!(rows(&[0], &[0, 0, 0, 0]), Some(vec![0]));
        for numbers in [&[4, 2, 0, 2][..], &[5, 0, 1], &[6, -1, 0, 2], &[4, 1, i64::MAX, 1]] {
            assert_eq!(rows(&[5, 3], numbers), None, "{numbers:?}");
        }
        assert_eq!(rows(&[], &[0, 0, 0, 0]), None);
    }
}
