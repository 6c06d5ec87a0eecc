//! Attributes of an operation, by name. The pretty form has other names for some.

use super::attribute::Attribute;
use super::lower::Call;
use crate::error::Result;
use crate::invalid;
use crate::shape::Dims;

impl<'c, 'a, 'm> Call<'c, 'a, 'm> {
    pub fn find(&self, names: &[&str]) -> Option<&'c Attribute<'a>> {
        let named = |name: &str| self.op.attrs.iter().find(|entry| entry.0 == name).map(|e| &e.1);
        // Attributes of an operation that XLA writes as a call.
        let inner = |name: &&str| named("mhlo.attributes")?.entry(name);
        names.iter().find_map(|name| named(name)).or_else(|| names.iter().find_map(inner))
    }

    pub fn attr(&self, names: &[&str]) -> Result<&'c Attribute<'a>> {
        match self.find(names) {
            Some(value) => Ok(value),
            None => invalid!("`{}` is missing", names[0]),
        }
    }

    pub fn ints(&self, names: &[&str]) -> Result<Dims> {
        Ok(self.attr(names)?.ints().map_err(|e| e.within(names[0]))?.into())
    }

    /// The attribute's `count` integers; all `default` if it is absent.
    pub fn ints_or(&self, names: &[&str], default: i64, count: usize) -> Result<Dims> {
        let found = match self.find(names) {
            Some(value) => value.ints().map_err(|e| e.within(names[0]))?.into(),
            None => Dims::from_elem(default, count),
        };
        match found.len() == count {
            true => Ok(found),
            false => invalid!("{}: {} numbers where {count} are expected", names[0], found.len()),
        }
    }

    pub fn int(&self, names: &[&str]) -> Result<i64> {
        match self.ints(names)?[..] {
            [n] => Ok(n),
            _ => invalid!("{}: expected one number", names[0]),
        }
    }

    pub fn int_or(&self, names: &[&str], default: i64) -> Result<i64> {
        if self.find(names).is_some() { self.int(names) } else { Ok(default) }
    }

    /// False if it is absent.
    pub fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.int_or(&[name], 0)? != 0)
    }

    /// A dimension of an array of `rank` dimensions.
    pub fn dim(&self, names: &[&str], rank: usize) -> Result<usize> {
        dim(self.int(names)?, rank)
    }

    /// Distinct dimensions of an array of `rank` dimensions.
    pub fn dims(&self, names: &[&str], rank: usize) -> Result<Vec<usize>> {
        dims(&self.ints(names)?, rank).map_err(|e| e.within(names[0]))
    }

    /// A choice by name, or without one: pretty forms do not name the attribute of a choice.
    pub fn choice(&self, names: &[&str]) -> Option<&'a str> {
        let is_choice = |(name, value): &&(&str, Attribute<'a>)| {
            (name.is_empty() || names.contains(name)) && matches!(value, Attribute::Choice(_))
        };
        self.op.attrs.iter().find(is_choice).and_then(|(_, value)| match value {
            Attribute::Choice(word) => Some(*word),
            _ => None,
        })
    }
}

pub fn dim(dim: i64, rank: usize) -> Result<usize> {
    match usize::try_from(dim) {
        Ok(dim) if dim < rank => Ok(dim),
        _ => invalid!("no dimension {dim} in an array of {rank} dimensions"),
    }
}

/// Distinct dimensions of an array.
pub fn dims(all: &[i64], rank: usize) -> Result<Vec<usize>> {
    let all: Vec<usize> = all.iter().map(|&d| dim(d, rank)).collect::<Result<_>>()?;
    match (0..all.len()).find(|&i| all[..i].contains(&all[i])) {
        Some(i) => invalid!("dimension {} is named twice", all[i]),
        None => Ok(all),
    }
}
