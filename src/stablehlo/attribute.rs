//! Attributes: the parameters of an operation besides its operands.

use super::cursor::Cursor;
use super::literal::Literal;
use super::types::tensor;
use crate::error::Result;
use crate::op::Ty;

pub type Dict<'a> = Vec<(&'a str, Attribute<'a>)>;

#[derive(Clone, Debug)]
pub enum Attribute<'a> {
    /// Present, with a value that is not read.
    Unit,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// The raw text between the quotes.
    Text(&'a str),
    Symbol(&'a str),
    /// One of a list of choices: `LT`, `DEFAULT`, the `b` of dimension numbers.
    Choice(&'a str),
    Type(Ty),
    List(Vec<Attribute<'a>>),
    Dict(Dict<'a>),
    Dense(Literal<'a>),
}

impl<'a> Attribute<'a> {
    pub fn entry(&self, name: &str) -> Option<&Attribute<'a>> {
        match self {
            Attribute::Dict(entries) => entries.iter().find(|e| e.0 == name).map(|e| &e.1),
            _ => None,
        }
    }

    /// Integers of a list, an array or a dense literal; nested lists are concatenated.
    pub fn ints(&self) -> Result<Vec<i64>> {
        match self {
            Attribute::Int(n) => Ok(vec![*n]),
            Attribute::Bool(b) => Ok(vec![*b as i64]),
            Attribute::List(items) => {
                let lists: Result<Vec<_>> = items.iter().map(Attribute::ints).collect();
                Ok(lists?.concat())
            }
            Attribute::Dense(literal) => literal.ints(),
            _ => crate::invalid!("expected whole numbers"),
        }
    }
}

impl<'a> Cursor<'a> {
    /// `{name = value, …}`
    pub fn dict(&mut self) -> Result<Dict<'a>> {
        self.expect("{")?;
        self.deeper(|c| c.until("}", Cursor::entry))
    }

    fn entry(&mut self) -> Result<(&'a str, Attribute<'a>)> {
        let at = self.at;
        let name = if self.peek() == b'"' { self.string()? } else { self.word() };
        if name.is_empty() {
            return self.fail(at, "expected the name of an attribute");
        }
        let value = if self.eat("=") { self.attribute(true)? } else { Attribute::Unit };
        Ok((name, value))
    }

    /// `[value, …]`
    fn list(&mut self) -> Result<Attribute<'a>> {
        self.expect("[")?;
        Ok(Attribute::List(self.deeper(|c| c.until("]", |c| c.attribute(true)))?))
    }

    /// Lists in the pretty form of products: `[0] x [1]`, `[b, f]x[i, o]->[b, f]`.
    pub fn lists(&mut self) -> Result<Attribute<'a>> {
        let mut all = vec![self.list()?];
        while self.eat("->") || self.peek_word() == "x" && self.eat("x") {
            all.push(self.list()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Attribute::List(all) })
    }

    /// With `typed`, a number may have a type; elsewhere a colon belongs to the operation.
    pub fn attribute(&mut self, typed: bool) -> Result<Attribute<'a>> {
        match self.peek() {
            b'"' => {
                let text = self.string()?;
                self.skip_type(typed)?;
                Ok(Attribute::Text(text))
            }
            b'@' => {
                let mut name = self.name("@")?;
                while self.eat("::") {
                    name = self.name("@")?;
                }
                Ok(Attribute::Symbol(name))
            }
            b'[' => self.lists(),
            b'{' => Ok(Attribute::Dict(self.dict()?)),
            b'<' | b'!' => {
                if self.eat("!") {
                    self.word();
                }
                if self.peek() == b'<' {
                    self.skip_brackets()?;
                }
                Ok(Attribute::Unit)
            }
            b'#' => self.of_dialect(),
            b'-' | b'+' | b'0'..=b'9' => self.number(typed),
            b'(' => {
                // The type of a function.
                self.skip_brackets()?;
                if self.eat("->") {
                    self.attribute(false)?;
                }
                Ok(Attribute::Unit)
            }
            _ => self.worded(typed),
        }
    }

    fn skip_type(&mut self, typed: bool) -> Result<()> {
        if typed && self.eat(":") {
            self.deeper(|c| c.attribute(false))?;
        }
        Ok(())
    }

    fn number(&mut self, typed: bool) -> Result<Attribute<'a>> {
        let start = self.at;
        let text = self.number_text();
        let value = match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(n), _) => Attribute::Int(n),
            (_, Ok(x)) => Attribute::Float(x),
            // The bits of a float, or an integer in hexadecimal.
            _ => match text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16)) {
                Some(Ok(bits)) => Attribute::Int(bits as i64),
                _ => return self.fail(start, format!("`{text}` is no number")),
            },
        };
        self.skip_type(typed)?;
        Ok(value)
    }

    /// A sign, digits, a point, an exponent.
    fn number_text(&mut self) -> &'a str {
        self.peek();
        let (start, bytes) = (self.at, self.text.as_bytes());
        let is_part = |at: usize| match bytes.get(at) {
            Some(b'+' | b'-') => at == start || matches!(bytes[at - 1], b'e' | b'E'),
            Some(&b) => b.is_ascii_alphanumeric() || b == b'.',
            None => false,
        };
        while is_part(self.at) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// `#stablehlo<precision DEFAULT>`, `#stablehlo.gather<offset_dims = [1], …>`, and attributes that are not read.
    fn of_dialect(&mut self) -> Result<Attribute<'a>> {
        self.expect("#")?;
        let name = self.word();
        if self.peek() != b'<' {
            return Ok(Attribute::Unit);
        }
        match name {
            "stablehlo" | "chlo" => {
                self.expect("<")?;
                self.word();
                let choice = self.word();
                self.expect(">")?;
                Ok(Attribute::Choice(choice))
            }
            "stablehlo.conv" => {
                self.expect("<")?;
                let lists = self.lists()?;
                self.expect(">")?;
                Ok(lists)
            }
            "stablehlo.gather" | "stablehlo.scatter" | "stablehlo.dot" => {
                self.expect("<")?;
                Ok(Attribute::Dict(self.deeper(|c| c.until(">", Cursor::entry))?))
            }
            _ => {
                self.skip_brackets()?;
                Ok(Attribute::Unit)
            }
        }
    }

    fn worded(&mut self, typed: bool) -> Result<Attribute<'a>> {
        let at = self.at;
        match self.peek_word() {
            "" => self.fail(at, "expected the value of an attribute"),
            "true" | "false" => Ok(Attribute::Bool(self.word() == "true")),
            "unit" => {
                self.word();
                Ok(Attribute::Unit)
            }
            "array" => {
                self.word();
                self.expect("<")?;
                self.word();
                let items = match self.eat(":") {
                    true => self.until(">", |c| c.attribute(false))?,
                    false => self.until(">", |c| c.fail(c.at, "expected `:`"))?,
                };
                Ok(Attribute::List(items))
            }
            "dense" | "dense_resource" => Ok(Attribute::Dense(Literal::read(self)?)),
            "loc" | "affine_map" => {
                self.word();
                self.skip_brackets()?;
                Ok(Attribute::Unit)
            }
            word if is_type(word) => {
                let ty = self.deeper(|c| tensor(c))?;
                Ok(Attribute::Type(ty))
            }
            _ => {
                let word = self.word();
                if self.peek() == b'<' && !typed {
                    self.skip_brackets()?;
                }
                Ok(Attribute::Choice(word))
            }
        }
    }
}

/// `tensor`, `complex` and names of elements that cannot be mistaken for a dimension number.
fn is_type(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let is_element = word.starts_with(['i', 'u', 'f', 'b', 's'])
        && word.len() > 1
        && digits.starts_with(|c: char| c.is_ascii_digit());
    matches!(word, "tensor" | "complex" | "index") || is_element
}
