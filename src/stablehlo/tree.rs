//! A module as data: functions of operations with regions.

use super::attribute::Dict;
use crate::op::Ty;

/// `%name`, or `%name#index` of several.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    pub name: &'a str,
    pub index: usize,
    pub at: usize,
}

#[derive(Debug)]
pub struct Operation<'a> {
    pub name: &'a str,
    pub at: usize,
    /// Names of results, each with its number of results.
    pub results: Vec<(&'a str, usize)>,
    pub operands: Vec<Name<'a>>,
    pub attrs: Dict<'a>,
    pub regions: Vec<Region<'a>>,
    /// Types of the results.
    pub types: Vec<Ty>,
    /// Whether these are the elements of one tuple.
    pub is_tuple: bool,
}

#[derive(Debug, Default)]
pub struct Region<'a> {
    pub args: Vec<&'a str>,
    pub body: Vec<Operation<'a>>,
}

#[derive(Debug)]
pub struct Function<'a> {
    pub name: &'a str,
    pub at: usize,
    pub is_public: bool,
    pub args: Vec<Ty>,
    /// Attributes of each argument.
    pub arg_attrs: Vec<Dict<'a>>,
    pub body: Region<'a>,
}

pub fn is_return(name: &str) -> bool {
    matches!(name, "return" | "func.return" | "stablehlo.return")
}
