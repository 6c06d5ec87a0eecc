//! One program for all sizes: a plan made for some lengths is a template that is instantiated at others.
//!
//! Traces that differ in sizes only are a *family*. Two of them show which sizes vary independently (the *symbols*) and how every
//! other number of the trace depends on them ([`symbol_map`]), by the numbers and by the relations that operations impose on them
//! ([`relations`]): where many sizes vary, the numbers of two traces alone do not suffice. The family's trace is then planned at
//! more points ([`probe`]), and where the plans have the same kernels in the same order, a *template* holds that plan with its
//! numbers as polynomials in the symbols ([`template`]). For a new length the numbers are filled in, and only memory is placed
//! anew.
//!
//! **Invariant:** a template is used only for a trace whose every number equals the one that follows from its symbols, and
//! only between the sizes at which it was proved; every polynomial of a plan goes through more points than determine it. So
//! a wrong symbol map finds no template, and the trace is compiled for its own sizes. A condition of a rewrite that may cease
//! to hold between these sizes (two views lie apart) is a number of the plan, too, and is checked in each instance
//! ([`Guard`](crate::graph::Guard)).

mod attempt;
mod basis;
mod buckets;
mod fitted;
mod floor;
mod stride;
mod symbol_map;
mod learned;
mod learning;
mod policy;
mod possible;
mod probe;
mod proved;
mod relations;
mod sampling;
mod shares;
mod template;
#[cfg(test)]
mod tests;

use crate::cache::encode;
use crate::cache::key::Key;
use crate::error::Result;
use crate::number::{Number, Numbers};
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::record::Records;
use crate::symbolic::SMALLEST;
use buckets::Buckets;
pub use buckets::{InBucket, Padding};
pub use learned::Seen;
pub use learning::Ticket;
use learning::{Evidence, Found, Learning};
use parking_lot::{Condvar, Mutex};
pub use policy::Policy;
use relations::{Relations, Role};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use stride::StrideDetector;
use symbol_map::SymbolMap;
use template::Template;
pub use template::{Comparison, compare};

/// Maximum number of families; the least recently used is dropped first.
pub const FAMILIES: usize = 64;
/// Number of a family's traces that are kept to fit polynomials to: the newest.
const EXAMPLES: usize = 8;
/// Maximum number of templates of a family, for sizes so different that other plans are better.
const TEMPLATES: usize = 8;
/// There may be more of small plans, up to this many steps in all, ...
const TEMPLATE_STEPS: usize = 4096;
/// ... but at most this many: each is asked whether it covers a trace.
const SMALL_TEMPLATES: usize = 64;
/// Number of failed attempts to plan a family at other points before attempts become rare.
const ATTEMPTS: usize = 6;
/// Number of traces after which they become rare in any case: looking for varying sizes takes a little time, too.
const PATIENCE: usize = 12;
/// Number of nearest examples that may show which sizes vary where all together do not.
const NEAREST: usize = 3;

/// One program in this many is compared with that of the whole pipeline; the first ones always, in debug builds all.
const SAMPLE: u64 = if cfg!(debug_assertions) { 1 } else { 64 };
const FIRST: u64 = 2;

/// Plans a trace by given decisions; two at once.
pub type Planner<'a> = &'a (dyn Fn(&Records, &PlanDecisions) -> Result<UnplacedPlan> + Sync);

/// The families of a context.
#[derive(Default)]
pub struct Families {
    list: Mutex<Vec<Family>>,
    tickets: AtomicU64,
    /// Notified when an attempt beside the runs of a family's programs has ended.
    found: Condvar,
}

/// A trace as its structure and its numbers.
#[derive(Clone)]
pub struct ShapeErasedTrace {
    structure: Key,
    numbers: Vec<i64>,
    operations: usize,
}

/// An instantiated template.
pub struct Instance {
    pub unplaced: UnplacedPlan,
    pub binding: SymbolBinding,
    /// Decisions for the trace's own plan, with which the instance is to be compared, if it is.
    pub verify: Option<PlanDecisions>,
    /// Whether a part is one element, or none: such an instance is compared, and says nothing about other sizes.
    pub is_special: bool,
}

/// The sizes of a trace: values of its family's symbols.
#[derive(Clone)]
pub struct SymbolBinding {
    symbol_map: Arc<SymbolMap>,
    point: Vec<i64>,
}

/// A template, and how the sizes of its traces change from one to the next.
struct Learnt {
    symbol_map: Arc<SymbolMap>,
    template: Template,
    stride: StrideDetector,
}

struct Family {
    structure: Key,
    /// Numbers of traces that were planned for their own sizes; the newest last.
    examples: Vec<Vec<i64>>,
    templates: Vec<Learnt>,
    instances: u64,
    /// Number of attempts at other points since a template was last used, and of traces planned for their own sizes since.
    failures: usize,
    since: usize,
    /// Number of those traces since it was last decided to learn the family beside its runs.
    unlearned: usize,
    /// Whether one of its templates was wrong: then no more are made.
    was_wrong: bool,
    /// Present while it is learnt beside the runs of its programs.
    beside: Option<Learning>,
    buckets: Vec<Buckets>,
    /// Number of failed attempts to make buckets.
    unpadded: usize,
}

impl ShapeErasedTrace {
    /// Everything about the trace that decides its program: the content of its key's parts, with the numbers apart.
    pub fn of(records: &Records) -> ShapeErasedTrace {
        let mut bare = records.clone();
        let mut numbers = Vec::new();
        bare.numbers(&mut |number| match number {
            Number::Int(n) | Number::Size(n) => numbers.push(std::mem::take(n)),
            Number::Bytes(n) => numbers.push(std::mem::take(n) as i64),
            Number::Float(_) => {}
        });
        let structure = Key::new(encode::parts(&bare));
        ShapeErasedTrace { structure, numbers, operations: records.records.len() }
    }
}

impl SymbolBinding {
    /// A trace of the family with these sizes instead of its own, if such a trace is possible.
    pub fn resized(&self, records: Records) -> Option<Records> {
        possible::resized(&self.symbol_map, records, &self.point)
    }
}

impl Families {
    /// The unplaced plan for the trace, from a template of its family.
    pub fn instance(&self, erased: &ShapeErasedTrace, records: &Records) -> Option<Instance> {
        let mut families = self.list.lock();
        self.use_in_time(&mut families, &erased.structure);
        let at = families.iter().position(|family| family.structure == erased.structure)?;
        families[..=at].rotate_right(1);
        let family = &mut families[0];
        // A template that was compared for such sizes takes precedence over those that still have to be.
        let (mut unplaced, is_special, at, binding) =
            [true, false].into_iter().find_map(|is_proved| {
                family.templates.iter().enumerate().find_map(|(at, learnt)| {
                    let Learnt { symbol_map, template, .. } = learnt;
                    let point = symbol_map.bind(&erased.numbers)?;
                    if template.proved.contains(&point) != is_proved {
                        return None;
                    }
                    let (unplaced, is_special) = template.instance(&point)?;
                    let binding = SymbolBinding { symbol_map: symbol_map.clone(), point };
                    Some((unplaced, is_special, at, binding))
                })
            })?;
        family.templates[..=at].rotate_right(1);
        let decisions = &family.templates[0].template.decisions;
        for step in unplaced.steps_mut() {
            if let Some(record) = (step.record as usize).checked_sub(1) {
                step.site = records.records[record].site;
            }
        }
        family.instances += 1;
        (family.failures, family.since) = (0, 0);
        let is_proved = family.templates[0].template.proved.contains(&binding.point);
        let is_sample = family.instances <= FIRST || family.instances.is_multiple_of(SAMPLE);
        let verify = is_sample || is_special || !is_proved;
        let verify = verify.then(|| decisions.clone());
        Some(Instance { unplaced, binding, verify, is_special })
    }

    /// Notes that a template's plan for these sizes is the trace's own.
    pub fn prove(&self, binding: &SymbolBinding) {
        let mut families = self.list.lock();
        let mut templates = families.iter_mut().flat_map(|family| &mut family.templates);
        if let Some(learnt) =
            templates.find(|one| Arc::ptr_eq(&one.symbol_map, &binding.symbol_map))
        {
            learnt.template.proved.add(&binding.point);
        }
    }

    /// Notes that a trace of these sizes ran. Returns the sizes of the trace after the next one, if they go on changing as they
    /// did up to this one, and a template has a plan for them.
    pub fn ahead(&self, binding: &SymbolBinding) -> Option<SymbolBinding> {
        let SymbolBinding { symbol_map, point } = binding;
        let mut families = self.list.lock();
        let mut templates = families.iter_mut().flat_map(|family| &mut family.templates);
        let learnt = templates.find(|one| Arc::ptr_eq(&one.symbol_map, symbol_map))?;
        let mut point = learnt.stride.ahead(point)?;
        symbol_map.settle(&mut point)?;
        let binding = SymbolBinding { symbol_map: symbol_map.clone(), point };
        learnt.template.covers(&binding.point).then_some(binding)
    }

    /// Notes a trace that is planned for its own sizes. Returns whether there is something to [`Families::learn`] from it.
    pub fn add(&self, erased: &ShapeErasedTrace) -> bool {
        let mut families = self.list.lock();
        match families.iter().position(|family| family.structure == erased.structure) {
            Some(at) => families[..=at].rotate_right(1),
            None => {
                families.truncate(FAMILIES - 1);
                families.insert(0, Family::new(erased.structure.clone()));
            }
        }
        families[0].add(erased)
    }

    /// Plans the family of an added trace at other points, by the trace's own plan. Returns whether a template was made.
    pub fn learn(
        &self,
        erased: &ShapeErasedTrace,
        records: &Records,
        unplaced: &UnplacedPlan,
        decisions: &PlanDecisions,
        planner: Planner,
    ) -> bool {
        let of = |family: &&mut Family| family.structure == erased.structure;
        let known = self.list.lock().iter_mut().find(of).map(|family| family.evidence());
        // Planning takes long: other threads need the families meanwhile.
        let found = known.map(|known| known.attempt(erased, records, unplaced, decisions, planner));
        let mut families = self.list.lock();
        families.iter_mut().find(of).zip(found).is_some_and(|(family, found)| family.learnt(found))
    }

    /// Pads the trace to a bucket of its family.
    pub fn pad(&self, erased: &ShapeErasedTrace, records: &Records, policy: &Policy) -> Padding {
        let mut families = self.list.lock();
        match families.iter().position(|family| family.structure == erased.structure) {
            Some(at) => {
                families[..=at].rotate_right(1);
                families[0].pad(&erased.numbers, records, policy)
            }
            None => Padding::NotYet,
        }
    }

    /// Forgets all templates: from now on plans are made differently.
    pub fn forget_plans(&self) {
        for family in self.list.lock().iter_mut() {
            family.templates.clear();
            family.beside = None;
        }
    }

    /// Forgets a family's templates, one of which was wrong.
    pub fn forget(&self, erased: &ShapeErasedTrace) {
        if let Some(family) = self.list.lock().iter_mut().find(|f| f.structure == erased.structure)
        {
            family.templates.clear();
            family.beside = None;
            family.was_wrong = true;
        }
    }
}

/// The examples that differ from `numbers` in the fewest places, if these are not all: where models of different widths have the
/// same trace, those of one width.
fn nearest(examples: &[Vec<i64>], numbers: &[i64]) -> Option<Vec<Vec<i64>>> {
    if examples.len() <= NEAREST {
        return None;
    }
    let differ = |example: &&Vec<i64>| example.iter().zip(numbers).filter(|(a, b)| a != b).count();
    let mut near: Vec<&Vec<i64>> = examples.iter().rev().collect();
    near.sort_by_key(differ);
    Some(near.into_iter().take(NEAREST).cloned().collect())
}

/// The examples in which the same sizes as in `numbers` are one or none: such traces are special cases, which say nothing about
/// others.
fn alike(examples: &[Vec<i64>], numbers: &[i64], relations: &Relations) -> Vec<Vec<i64>> {
    let is_small = |n: i64| (n < SMALLEST).then_some(n);
    let is_alike = |example: &&Vec<i64>| {
        let sizes = (0..numbers.len()).filter(|&at| relations.role(at) == Role::Size);
        sizes.into_iter().all(|at| is_small(example[at]) == is_small(numbers[at]))
    };
    examples.iter().filter(is_alike).cloned().collect()
}

impl Family {
    fn new(structure: Key) -> Family {
        Family {
            structure,
            examples: Vec::new(),
            templates: Vec::new(),
            instances: 0,
            failures: 0,
            since: 0,
            unlearned: 0,
            was_wrong: false,
            beside: None,
            buckets: Vec::new(),
            unpadded: 0,
        }
    }

    fn pad(&mut self, numbers: &[i64], records: &Records, policy: &Policy) -> Padding {
        let of = |buckets: &Buckets| buckets.symbol_map.bind(numbers);
        let known = self.buckets.iter().enumerate().find_map(|(at, b)| Some((at, of(b)?)));
        let (at, point) = match known {
            Some(known) => known,
            None if self.examples.is_empty() => return Padding::NotYet,
            None if self.unpadded >= ATTEMPTS => {
                return Padding::Refused("no sizes explain the numbers of others".into());
            }
            None => match self.bucketed(numbers, records) {
                Some(point) => (0, point),
                None => {
                    self.unpadded += 1;
                    return Padding::Refused("no sizes explain its numbers".into());
                }
            },
        };
        match self.buckets[at].pad(&point, records, policy) {
            Ok(made) => Padding::Done(Box::new(made)),
            Err(why) => Padding::Refused(why),
        }
    }

    /// Makes buckets for the sizes that vary between this trace and others; returns the point of this one.
    fn bucketed(&mut self, numbers: &[i64], records: &Records) -> Option<Vec<i64>> {
        let mut examples = self.examples.clone();
        examples.push(numbers.to_vec());
        let symbol_map = SymbolMap::without_floors(&examples)?;
        if symbol_map.has_many() {
            return None;
        }
        let point = symbol_map.bind_general(numbers)?;
        let buckets = Buckets::new(symbol_map, &point, records)?;
        self.buckets.truncate(TEMPLATES - 1);
        self.buckets.insert(0, buckets);
        Some(point)
    }

    fn add(&mut self, erased: &ShapeErasedTrace) -> bool {
        let ShapeErasedTrace { numbers, operations, .. } = erased;
        if self.examples.contains(numbers) || self.was_wrong {
            return false;
        }
        if let Some(learning) = &mut self.beside {
            learning.traces_left = learning.traces_left.saturating_sub(1);
        }
        if self.examples.len() == EXAMPLES {
            self.examples.remove(0);
        }
        self.examples.push(numbers.clone());
        if self.examples.len() == 1 {
            return false;
        }
        self.since += 1;
        self.unlearned += 1;
        let is_open = self.failures < ATTEMPTS && self.since <= PATIENCE;
        let is_due = match self.is_learnt_beside(*operations) {
            true => self.has_news(),
            false => is_open || self.since.is_power_of_two(),
        };
        is_due && self.beside.is_none()
    }

    fn evidence(&self) -> Evidence {
        let maps = self.templates.iter().map(|one| one.symbol_map.clone());
        Evidence { maps: maps.collect(), examples: self.examples.clone() }
    }

    /// Takes the outcome of an attempt; returns whether it is a template. A template that is never used is a failure, too.
    fn learnt(&mut self, Found { template, was_planned }: Found) -> bool {
        // Traces that say nothing about each other cost little.
        self.failures += was_planned as usize;
        let Some((symbol_map, template)) = template else { return false };
        let steps = template.steps().max(1);
        let most = (TEMPLATE_STEPS / steps).clamp(TEMPLATES, SMALL_TEMPLATES);
        self.templates.truncate(most - 1);
        let (symbol_map, stride) = (Arc::new(symbol_map), StrideDetector::default());
        self.templates.insert(0, Learnt { symbol_map, template, stride });
        true
    }
}
