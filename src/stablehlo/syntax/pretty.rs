//! The pretty form of operations: operands, words, lists and options in the order that each operation has them, then types.
//! One grammar for all of them, with the same results as the generic form.

use super::{operand, operations, typed_name, types};
use crate::error::Result;
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::cursor::Cursor;
use crate::stablehlo::tree::{Operation, Region, is_return};

pub fn form<'a>(c: &mut Cursor<'a>, op: &mut Operation<'a>) -> Result<()> {
    let mut region_args = Vec::new();
    loop {
        match c.peek() {
            b'%' => op.operands.push(operand(c)?),
            b',' => c.at += 1,
            b'(' => group(c, op, &mut region_args)?,
            b'@' => {
                let callee = c.attribute(false)?;
                op.attrs.push(("callee", callee));
            }
            b'"' => {
                let text = c.attribute(false)?;
                op.attrs.push(("name", text));
            }
            b'{' => {
                let dict = c.dict()?;
                op.attrs.extend(dict);
            }
            b'[' => {
                c.at += 1;
                let ranges = c.until("]", range)?.concat();
                op.attrs.push(("ranges", Attribute::List(ranges)));
            }
            b':' => break,
            // A return that ends here returns nothing.
            b'}' if is_return(op.name) => return Ok(()),
            _ => {
                let at = c.at;
                let word = c.peek_word();
                if matches!(word, "dense" | "dense_resource") {
                    let literal = c.attribute(true)?;
                    if let Attribute::Dense(literal) = &literal {
                        op.types = vec![literal.ty.clone()];
                    }
                    op.attrs.push(("value", literal));
                    return Ok(());
                }
                if word.is_empty() {
                    return c.fail(at, format!("{}: this is not understood", op.name));
                }
                c.word();
                if c.peek() == b'=' && !c.starts_with("==") {
                    c.at += 1;
                    let value = c.attribute(false)?;
                    op.attrs.push((word, value));
                } else if word == "applies" {
                    let name = c.word();
                    op.attrs.push(("applies", Attribute::Choice(name)));
                } else if is_return(op.name) && op.operands.is_empty() {
                    // The next operation: this one returns nothing.
                    c.at = at;
                    return Ok(());
                } else if word != "across" {
                    op.attrs.push(("", Attribute::Choice(word)));
                }
            }
        }
    }
    c.expect(":")?;
    types(c, op)?;
    if op.name == "stablehlo.reduce" {
        // Operands and initial values alternate here; in the generic form all operands come first.
        let turn = |n: usize| op.operands.iter().skip(n).step_by(2).copied();
        op.operands = turn(0).chain(turn(1)).collect();
    }
    if op.name == "stablehlo.while" {
        if c.eat_word("attributes") {
            c.dict()?;
        }
        for word in ["cond", "do"] {
            if !c.eat_word(word) {
                return c.fail(c.at, format!("expected `{word}`"));
            }
            let body = braced(c)?;
            op.regions.push(Region { args: region_args.clone(), body });
        }
    }
    if c.eat_word("reducer") {
        // Each operand has a pair of arguments; in the region all the first ones precede all the second ones.
        let (mut args, mut seconds) = (Vec::new(), Vec::new());
        while c.eat("(") {
            let at = c.at;
            let pair = c.until(")", typed_name)?;
            if pair.len() != 2 {
                return c.fail(at, "expected two arguments");
            }
            args.push(pair[0].0);
            seconds.push(pair[1].0);
        }
        args.extend(seconds);
        op.regions.push(Region { args, body: braced(c)? });
    }
    Ok(())
}

fn braced<'a>(c: &mut Cursor<'a>) -> Result<Vec<Operation<'a>>> {
    c.expect("{")?;
    let body = operations(c)?;
    c.expect("}")?;
    Ok(body)
}

/// `0:4:2`: start, limit and step.
fn range<'a>(c: &mut Cursor<'a>) -> Result<Vec<Attribute<'a>>> {
    let start = c.int()?;
    if !c.eat(":") {
        return Ok(vec![Attribute::Int(start)]);
    }
    let limit = c.int()?;
    let step = if c.eat(":") { c.int()? } else { 1 };
    Ok([start, limit, step].map(Attribute::Int).to_vec())
}

/// Operands in parentheses: `(%a, %b)`, `(%arg = %init)` of a loop, `(%x init: %zero)` of a reduction, `(%x, k = 2)`.
fn group<'a>(
    c: &mut Cursor<'a>,
    op: &mut Operation<'a>,
    region_args: &mut Vec<&'a str>,
) -> Result<()> {
    c.expect("(")?;
    c.until(")", |c| {
        if c.peek() != b'%' {
            let name = c.word();
            c.expect("=")?;
            let value = c.attribute(false)?;
            op.attrs.push((name, value));
            return Ok(());
        }
        let first = operand(c)?;
        if c.eat("=") {
            region_args.push(first.name);
            op.operands.push(operand(c)?);
        } else {
            op.operands.push(first);
            if c.eat_word("init") {
                c.expect(":")?;
                op.operands.push(operand(c)?);
            }
        }
        Ok(())
    })?;
    Ok(())
}
