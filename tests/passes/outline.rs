//! `outline`: what becomes a module, what stays outside, and that nothing is computed otherwise.

use super::{check, program};
use expect_test::expect;
use torchacc::graph::generate::{Limits, case};
use torchacc::graph::interpret::interpret;
use torchacc::graph::text::parse;
use torchacc::graph::verify::verify;
use torchacc::graph::{Graph, Node};
use torchacc::op::host::{HostOp, register};
use torchacc::op::module::body;
use torchacc::op::{Op, table::TABLE};
use torchacc::openxla;
use torchacc::passes::{Says, outline};

/// All but what refuses numbers.
fn sound(graph: &Graph, node: &Node) -> bool {
    !node.outputs().any(|v| node.op.refuses(graph.ty(v).dtype))
}

/// Some kinds of nodes, and others not.
fn every_other(graph: &Graph, node: &Node) -> bool {
    sound(graph, node) && (node.op as usize).is_multiple_of(2)
}

#[test]
fn what_stays_outside_parts_modules() {
    register(HostOp {
        name: "part".into(),
        key: "outline".into(),
        function: Box::new(|_, _| Ok(())),
        shape: None,
        cuda: None,
        device_function: None,
    });
    let lines = "\
%2: f32[2,3] = exp(%0)
%3: f32[3,2] = transpose(%2) {perm=[1,0]}
%4: f32[3,2] = host(%3) {op=\"outline\", types=(f32[3,2]), args=<tensor>}
%5: f32[] = const() {value=2.0, dtype=f32}
%6: f32[3,2] = broadcast(%5) {sizes=[3,2]}
%7: f32[3,2] = mul(%4, %6)
%8: f32[3,2] = add(%7, %3)
%9: f32[2,3] = mul(%0, %1)
return %8, %9";
    check(
        |graph| outline(graph, sound),
        &program(&["f32[2,3]", "f32[2,3]"], lines),
        expect![[r#"
        %0: f32[2,3] = input() {index=0, type=(f32[2,3])}
        %1: f32[2,3] = input() {index=1, type=(f32[2,3])}
        %2: f32[2,3], %3: f32[2,3] = module(%0, %1) {body=(f32[2,3], f32[2,3]) {
            %2: f32[2,3] = exp(%0)
            %3: f32[2,3] = mul(%0, %1)
            return %2, %3
        }}
        %4: f32[3,2] = transpose(%2) {perm=[1,0]}
        %5: f32[3,2] = host(%4) {op="outline", types=(f32[3,2]), args=<tensor>}
        %6: f32[3,2] = module(%5, %2) {body=(f32[3,2], f32[2,3]) {
            %2: f32[] = const() {value=2.0, dtype=f32}
            %3: f32[3,2] = broadcast(%2) {sizes=[3,2]}
            %4: f32[3,2] = mul(%0, %3)
            %5: f32[3,2] = transpose(%1) {perm=[1,0]}
            %6: f32[3,2] = add(%4, %5)
            return %6
        }}
        return %6, %3
    "#]],
    );
}

#[test]
fn what_only_moves_is_no_module() {
    let lines = "%1: f32[3,2] = transpose(%0) {perm=[1,0]}\n\
        %2: f32[1,2] = slice(%1) {starts=[1,0], sizes=[1,2], steps=[1,1]}\nreturn %2";
    let graph = parse(&program(&["f32[2,3]"], lines)).unwrap();
    assert_eq!(*outline(&graph, sound).unwrap(), graph);
}

/// What is made of little waits for where it is needed: the comparison is made behind the host operator, not kept.
#[test]
fn what_takes_more_than_it_is_made_of_is_computed_late() {
    register(HostOp {
        name: "late".into(),
        key: "outline late".into(),
        function: Box::new(|_, _| Ok(())),
        shape: None,
        cuda: None,
        device_function: None,
    });
    let lines = "\
%1: f64[4] = cast(%0) {dtype=f64}
%2: f32[4] = exp(%0)
%3: f32[4] = host(%2) {op=\"outline late\", types=(f32[4]), args=<tensor>}
%4: f64[4] = cast(%3) {dtype=f64}
%5: f64[4] = add(%4, %1)
return %5";
    let graph = parse(&program(&["f32[4]"], lines)).unwrap();
    let outlined = outline(&graph, sound).unwrap();
    let modules: Vec<Vec<Op>> = (outlined.nodes.iter().filter_map(|node| body(&node.attrs)))
        .map(|body| body.nodes.iter().map(|node| node.op).collect())
        .collect();
    assert_eq!(modules, [vec![Op::Exp], vec![Op::Cast, Op::Cast, Op::Add]]);
}

/// On random programs, by their meaning; and their text comes back.
#[test]
fn programs_mean_the_same_in_modules() {
    let mut modules = 0;
    for seed in 0..300 {
        let case = case(seed, Limits { nodes: 40, size: 5 }).unwrap();
        let expected = interpret(&case.graph, &case.inputs, &case.scalars).unwrap();
        for says in [sound as Says, every_other, openxla::says] {
            let outlined = outline(&case.graph, says).unwrap();
            verify(&outlined).unwrap();
            modules += outlined.nodes.iter().filter(|node| node.op == Op::Module).count();
            let got = interpret(&outlined, &case.inputs, &case.scalars).unwrap();
            assert_eq!(got, expected, "seed {seed}\n{}\n{outlined}", case.graph);
            let (text, back) = (outlined.to_string(), parse(&outlined.to_string()).unwrap());
            assert_eq!(back.to_string(), text);
        }
    }
    assert!(modules > 900, "{modules} modules");
}

#[test]
fn modules_have_no_inputs_and_no_modules_inside() {
    let text = |inner: &str| {
        format!(
            "%0: f32[2] = input() {{index=0, type=(f32[2])}}\n\
             %1: f32[2] = module(%0) {{body=(f32[2]) {{\n{inner}\n}}}}\nreturn %1"
        )
    };
    assert!(parse(&text("%1: f32[2] = exp(%0)\nreturn %1")).is_ok());
    let said = |inner: &str| parse(&text(inner)).unwrap_err().message;
    let inputs = said("%1: f32[2] = input() {index=0, type=(f32[2])}\nreturn %1");
    assert!(inputs.contains("there is input in its body"), "{inputs}");
    let nested = said("%1: f32[2] = module(%0) {body=(f32[2]) {\nreturn %0}}\nreturn %1");
    assert!(nested.contains("there is module in its body"), "{nested}");
    let other = said("%1: f64[2] = cast(%0) {dtype=f64}\nreturn %1");
    assert!(other.contains("is declared f32[2], but is f64[2]"), "{other}");
    assert!(TABLE.iter().any(|row| row.op == Op::Module && row.doc.contains("engine")));
}
