//! A plan as bytes that mean the same in every process of this build, and back.
//!
//! Two things in a plan belong to one process: the numbers of host operators, stored as their keys, and sites, not stored
//! (the reader of the plan has recorded the same operations and knows them).

use super::{Kernel, Plan};
use crate::error::Site;
use crate::op::{Attr, Op, host};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Stored {
    plan: Plan,
    /// The keys that the numbers of host operators in `plan` stand for.
    host_keys: Vec<String>,
}

/// The numbers of the host operators that a plan calls.
fn host_operators(plan: &mut Plan) -> impl Iterator<Item = &mut i64> {
    plan.steps.iter_mut().filter_map(|step| match &mut step.kernel {
        Kernel::Node { op: Op::Host, attrs } => match attrs.first_mut() {
            Some(Attr::Int(number)) => Some(number),
            _ => None,
        },
        _ => None,
    })
}

/// `None` for a plan that calls an unregistered host operator.
pub fn encode(plan: &Plan) -> Option<Vec<u8>> {
    let mut plan = plan.clone();
    plan.steps.iter_mut().for_each(|step| step.site = 0);
    let mut host_keys: Vec<String> = Vec::new();
    for number in host_operators(&mut plan) {
        let key = &host::get(*number as u32)?.key;
        let known = host_keys.iter().position(|other| other == key);
        *number = known.unwrap_or(host_keys.len()) as i64;
        if known.is_none() {
            host_keys.push(key.clone());
        }
    }
    postcard::to_stdvec(&Stored { plan, host_keys }).ok()
}

/// The plan that [`encode`] made `bytes` of, with `site` of its steps' records. `None` for anything else, and for a
/// plan that calls a host operator that this process does not have.
pub fn decode(bytes: &[u8], site: impl Fn(u32) -> Site) -> Option<Plan> {
    let (Stored { mut plan, host_keys }, rest) = postcard::take_from_bytes(bytes).ok()?;
    if !rest.is_empty() {
        return None;
    }
    for number in host_operators(&mut plan) {
        let key = host_keys.get(usize::try_from(*number).ok()?)?;
        *number = host::by_key(key)? as i64;
    }
    plan.steps.iter_mut().for_each(|step| step.site = site(step.record));
    Some(plan)
}

#[cfg(test)]
mod tests {
    use super::super::random::random_program;
    use super::super::tests::plan_of;
    use super::*;
    use crate::graph::text::parse;
    use crate::op::host::{HostOp, register};

    #[test]
    fn random_plans_come_back_as_they_were() {
        for seed in 0..300 {
            let (graph, donors) = random_program(seed);
            let plan = plan_of(&graph, &donors);
            let bytes = encode(&plan).unwrap();
            assert_eq!(decode(&bytes, |_| 0).as_ref(), Some(&plan), "seed {seed}");
        }
    }

    #[test]
    fn damaged_bytes_are_no_plan_and_no_panic() {
        let (graph, donors) = random_program(7);
        let bytes = encode(&plan_of(&graph, &donors)).unwrap();
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end], |_| 0), None, "the first {end} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            // Lengths too: what they promise must not be allocated.
            damaged[at] = 0xff;
            let _ = decode(&damaged, |_| 0);
        }
        assert_eq!(decode(&[0xff; 4096], |_| 0), None);
        assert_eq!(decode(&[&bytes[..], &[0]].concat(), |_| 0), None);
    }

    #[test]
    fn host_operators_go_by_key_and_sites_by_record() {
        let operator = |key: &str| {
            let function = Box::new(|_: &[_], _: &[_]| Ok(()));
            register(HostOp {
                name: "test::stored".into(),
                key: key.into(),
                function,
                shape: None,
                cuda: None,
                device_function: None,
            })
        };
        operator("stored/first");
        let id = operator("stored/second");
        let text = "%0: f32[4] = input() {index=0, type=(f32[4])}\n\
            %1: f32[4] = host(%0) {op=\"stored/second\", types=(f32[4]), args=<tensor>}\nreturn %1";
        let mut graph = parse(text).unwrap();
        (graph.nodes[1].site, graph.nodes[1].record) = (77, 1);
        let plan = plan_of(&graph, &[None]);
        let bytes = encode(&plan).unwrap();
        let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(holds(b"stored/second") && !holds(b"stored/first"));
        let back = decode(&bytes, |record| record as Site + 100).unwrap();
        assert_eq!(back.steps[0].site, 101);
        let Kernel::Node { attrs, .. } = &back.steps[0].kernel else { panic!("not a node") };
        assert_eq!(attrs[0].int(), id as i64);
        // A process without the operator.
        let unknown = String::from_utf8_lossy(&bytes).into_owned();
        let unknown = unknown.replace("stored/second", "stored/absent");
        assert_eq!(decode(unknown.as_bytes(), |_| 0), None);
    }
}
