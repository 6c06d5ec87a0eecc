//! A module as it is written: functions of operations, in the pretty and in the generic form. Nothing is computed here.

mod pretty;

use super::attribute::Attribute;
use super::cursor::Cursor;
use super::tree::{Function, Name, Operation, Region, is_return};
use super::tuples;
use super::types::tensor;
use crate::error::Result;
use crate::op::Ty;

/// The most results of one operation.
const MAX_RESULTS: usize = 1 << 16;

/// The functions of a module.
pub fn functions(text: &str) -> Result<Vec<Function<'_>>> {
    let mut c = Cursor::new(text);
    let mut found = Vec::new();
    while !c.at_end() {
        top_level(&mut c, &mut found)?;
    }
    for (i, function) in found.iter().enumerate() {
        if found[..i].iter().any(|f: &Function| f.name == function.name) {
            return c.fail(function.at, format!("a second function `@{}`", function.name));
        }
    }
    Ok(found)
}

fn top_level<'a>(c: &mut Cursor<'a>, found: &mut Vec<Function<'a>>) -> Result<()> {
    let at = c.at;
    if c.eat("{-#") {
        let end = c.text[c.at..].find("#-}");
        let Some(end) = end else { return c.fail(at, "this section has no end") };
        c.at += end + 3;
        return Ok(());
    }
    if c.peek() == b'#' {
        c.attribute(false)?;
        c.expect("=")?;
        c.attribute(true)?;
        return Ok(());
    }
    if c.peek() == b'"' {
        return generic_top_level(c, found);
    }
    match c.peek_word() {
        "module" | "builtin.module" => {
            c.word();
            if c.peek() == b'@' {
                c.name("@")?;
            }
            if c.eat_word("attributes") {
                c.dict()?;
            }
            c.expect("{")?;
            c.deeper(|c| {
                while !c.eat("}") {
                    top_level(c, found)?;
                }
                c.skip_location()
            })
        }
        "func.func" | "func" => {
            found.push(function(c)?);
            Ok(())
        }
        // Meshes describe devices; references to them are skipped, too.
        "sdy.mesh" => {
            c.word();
            c.name("@")?;
            c.expect("=")?;
            c.attribute(false)?;
            if c.peek() == b'{' {
                c.dict()?;
            }
            Ok(())
        }
        word => c.fail(c.at, format!("expected a module or a function, not `{word}`")),
    }
}

/// `"builtin.module"() ({…}) : () -> ()`, `"func.func"() <{…}> ({…}) : () -> ()`.
fn generic_top_level<'a>(c: &mut Cursor<'a>, found: &mut Vec<Function<'a>>) -> Result<()> {
    c.peek();
    let at = c.at;
    let name = c.string()?;
    if !matches!(name, "builtin.module" | "func.func") {
        return c.fail(at, format!("expected a module or a function, not `{name}`"));
    }
    c.expect("(")?;
    c.expect(")")?;
    let mut attrs = if c.eat("<") { c.dict()? } else { Vec::new() };
    if !attrs.is_empty() || c.starts_with(">") {
        c.expect(">")?;
    }
    c.expect("(")?;
    c.expect("{")?;
    let mut body = None;
    c.deeper(|c| {
        if name == "func.func" {
            body = Some(block(c)?);
            return c.expect("}");
        }
        if c.peek() == b'^' {
            c.skip_label()?;
        }
        while !c.eat("}") {
            top_level(c, found)?;
        }
        Ok(())
    })?;
    c.expect(")")?;
    if c.peek() == b'{' {
        attrs.extend(c.dict()?);
    }
    c.expect(":")?;
    c.attribute(false)?;
    c.skip_location()?;
    let Some((args, mut body)) = body else { return Ok(()) };
    tuples::flatten(&mut body)?;
    let text = |wanted: &str| match attrs.iter().find(|(name, _)| *name == wanted) {
        Some((_, Attribute::Text(text))) => Some(*text),
        _ => None,
    };
    let Some(name) = text("sym_name") else { return c.fail(at, "this function has no name") };
    let is_public = text("sym_visibility") != Some("private");
    let arg_attrs = args.iter().map(|_| Vec::new()).collect();
    found.push(Function { name, at, is_public, args, arg_attrs, body });
    Ok(())
}

fn function<'a>(c: &mut Cursor<'a>) -> Result<Function<'a>> {
    c.word();
    let visibility = if c.peek() == b'@' { "" } else { c.word() };
    let at = c.at;
    let name = c.name("@")?;
    c.expect("(")?;
    let args = c.until(")", |c| {
        let name = c.name("%")?;
        c.expect(":")?;
        let ty = tensor(c)?;
        let attrs = if c.peek() == b'{' { c.dict()? } else { Vec::new() };
        c.skip_location()?;
        Ok((name, ty, attrs))
    })?;
    if c.eat("->") {
        if c.eat("(") {
            c.until(")", |c| {
                value(c)?;
                if c.peek() == b'{' {
                    c.dict()?;
                }
                Ok(())
            })?;
        } else {
            value(c)?;
        }
    }
    if c.eat_word("attributes") {
        c.dict()?;
    }
    if c.peek() != b'{' {
        return c.fail(at, format!("`@{name}` is declared, but has no body"));
    }
    let mut body = Region { args: args.iter().map(|a| a.0).collect(), body: Vec::new() };
    c.expect("{")?;
    body.body = operations(c)?;
    c.expect("}")?;
    c.skip_location()?;
    tuples::flatten(&mut body)?;
    let (args, arg_attrs) = args.into_iter().map(|(_, ty, attrs)| (ty, attrs)).unzip();
    Ok(Function { name, at, is_public: visibility != "private", args, arg_attrs, body })
}

/// Operations up to a closing brace, which is left unread.
fn operations<'a>(c: &mut Cursor<'a>) -> Result<Vec<Operation<'a>>> {
    c.deeper(|c| {
        let mut all = Vec::new();
        loop {
            match c.peek() {
                b'}' => return Ok(all),
                b'^' => return c.fail(c.at, "several blocks in a region are not supported"),
                0 if c.at_end() => return c.fail(c.at, "the text ends within a region"),
                _ => all.push(operation(c)?),
            }
        }
    })
}

/// The arguments and operations of a region's only block.
fn block<'a>(c: &mut Cursor<'a>) -> Result<(Vec<Ty>, Region<'a>)> {
    let (args, types) = if c.peek() == b'^' { c.skip_label()? } else { Default::default() };
    Ok((types, Region { args, body: operations(c)? }))
}

impl<'a> Cursor<'a> {
    /// `^bb0(%a: tensor<f32>, …):`
    fn skip_label(&mut self) -> Result<(Vec<&'a str>, Vec<Ty>)> {
        self.name("^")?;
        let args = match self.eat("(") {
            true => self.until(")", typed_name)?,
            false => Vec::new(),
        };
        self.expect(":")?;
        Ok(args.into_iter().unzip())
    }
}

fn typed_name<'a>(c: &mut Cursor<'a>) -> Result<(&'a str, Ty)> {
    let name = c.name("%")?;
    c.expect(":")?;
    let ty = tensor(c)?;
    c.skip_location()?;
    Ok((name, ty))
}

fn operand<'a>(c: &mut Cursor<'a>) -> Result<Name<'a>> {
    c.peek();
    let at = c.at;
    let name = c.name("%")?;
    let index = if c.eat("#") { c.int()? } else { 0 };
    match usize::try_from(index) {
        Ok(index) => Ok(Name { name, index, at }),
        Err(_) => c.fail(at, "a result's number is not negative"),
    }
}

fn operation<'a>(c: &mut Cursor<'a>) -> Result<Operation<'a>> {
    let mut results = Vec::new();
    if c.peek() == b'%' {
        loop {
            let name = c.name("%")?;
            let at = c.at;
            let count = if c.eat(":") { c.int()? } else { 1 };
            if !(0..=MAX_RESULTS as i64).contains(&count) {
                return c.fail(at, format!("{count} results"));
            }
            results.push((name, count as usize));
            if !c.eat(",") {
                break;
            }
        }
        c.expect("=")?;
    }
    let generic = c.peek() == b'"';
    let at = c.at;
    let name = if generic { c.string()? } else { c.word() };
    if name.is_empty() {
        return c.fail(at, "expected an operation");
    }
    let mut op = Operation {
        name,
        at,
        results,
        operands: Vec::new(),
        attrs: Vec::new(),
        regions: Vec::new(),
        types: Vec::new(),
        is_tuple: false,
    };
    if generic {
        generic_form(c, &mut op)?
    } else {
        pretty::form(c, &mut op)?
    }
    c.skip_location()?;
    let wanted: usize = op.results.iter().map(|r| r.1).sum();
    if wanted > 0 && wanted != op.types.len() && !(op.is_tuple && wanted == 1) {
        let message = format!("{name}: {wanted} names for {} results", op.types.len());
        return c.fail(at, message);
    }
    Ok(op)
}

/// `(operands) <{properties}> ({regions}) {attributes} : (types) -> types`
fn generic_form<'a>(c: &mut Cursor<'a>, op: &mut Operation<'a>) -> Result<()> {
    c.expect("(")?;
    op.operands = c.until(")", operand)?;
    if c.peek() == b'[' {
        return c.fail(c.at, format!("{}: jumps to other blocks are not supported", op.name));
    }
    if c.eat("<") {
        op.attrs = c.dict()?;
        c.expect(">")?;
    }
    if c.eat("(") {
        op.regions = c.until(")", |c| {
            c.expect("{")?;
            let region = block(c)?.1;
            c.expect("}")?;
            Ok(region)
        })?;
    }
    if c.peek() == b'{' {
        op.attrs.extend(c.dict()?);
    }
    c.expect(":")?;
    types(c, op)
}

/// The types of a value: of an array, or of the elements of a tuple, `tuple<type, …>`, and whether it is a tuple.
fn value(c: &mut Cursor) -> Result<(Vec<Ty>, bool)> {
    if !c.eat_word("tuple") {
        return Ok((vec![tensor(c)?], false));
    }
    c.expect("<")?;
    Ok((c.until(">", tensor)?, true))
}

/// `(types) -> types`, or the types of the results alone.
fn types<'a>(c: &mut Cursor<'a>, op: &mut Operation<'a>) -> Result<()> {
    let listed = |c: &mut Cursor<'a>| {
        if c.eat("(") { c.until(")", value) } else { Ok(vec![value(c)?]) }
    };
    let mut given = listed(c)?;
    while c.eat(",") {
        given.push(value(c)?);
    }
    if c.eat("->") {
        given = listed(c)?;
    } else if is_return(op.name) {
        return Ok(());
    } else {
        // As many types as results, or the last one is the result's.
        let wanted: usize = op.results.iter().map(|r| r.1).sum();
        if given.len() != wanted.max(1) {
            given = given.pop().into_iter().collect();
        }
    }
    op.is_tuple = matches!(given[..], [(_, true)]);
    op.types = given.into_iter().flat_map(|(types, _)| types).collect();
    Ok(())
}
