//! A position in a text, and the smallest items that are read there.

use crate::error::{Code, Error, Result};

/// Maximum nesting of regions, attributes and calls.
pub const MAX_DEPTH: usize = 48;

#[derive(Clone)]
pub struct Cursor<'a> {
    pub text: &'a str,
    /// Byte position.
    pub at: usize,
    /// Number of open brackets.
    depth: usize,
}

/// An error at a byte position, which [`located`] turns into line and column.
pub fn error_at(at: usize, message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message).at(at as u64 + 1)
}

/// The error with its line and column in front.
pub fn located(text: &str, mut error: Error) -> Error {
    let at = match error.site.checked_sub(1) {
        Some(at) => (at as usize).min(text.len()),
        None => return error,
    };
    let before = &text.as_bytes()[..at];
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    error.site = 0;
    error.within(format!("line {line}, column {column}"))
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$')
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0, depth: 0 }
    }

    pub fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T> {
        Err(error_at(at, message))
    }

    /// Runs `inside` one bracket deeper.
    pub fn deeper<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return self.fail(self.at, format!("more than {MAX_DEPTH} levels within each other"));
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// Skips white space and comments; returns the next byte, 0 at the end.
    pub fn peek(&mut self) -> u8 {
        let bytes = self.bytes();
        loop {
            match bytes.get(self.at) {
                Some(b) if b.is_ascii_whitespace() => self.at += 1,
                Some(b'/') if bytes.get(self.at + 1) == Some(&b'/') => {
                    let line = bytes[self.at..].iter().position(|&b| b == b'\n');
                    self.at = line.map_or(bytes.len(), |n| self.at + n);
                }
                Some(&b) => return b,
                None => return 0,
            }
        }
    }

    pub fn at_end(&mut self) -> bool {
        self.peek();
        self.at >= self.text.len()
    }

    pub fn starts_with(&mut self, token: &str) -> bool {
        self.peek();
        self.bytes()[self.at..].starts_with(token.as_bytes())
    }

    /// Passes punctuation, if it is next; returns whether it was.
    pub fn eat(&mut self, token: &str) -> bool {
        let found = self.starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Passes a whole word, if it is next; returns whether it was.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    pub fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            return Ok(());
        }
        self.peek();
        self.fail(self.at, format!("expected `{token}`"))
    }

    /// Letters, digits, `_`, `.` and `$`; may be empty.
    pub fn peek_word(&mut self) -> &'a str {
        self.peek();
        let rest = &self.bytes()[self.at..];
        let len = rest.iter().position(|&b| !is_name(b)).unwrap_or(rest.len());
        &self.text[self.at..self.at + len]
    }

    pub fn word(&mut self) -> &'a str {
        let word = self.peek_word();
        self.at += word.len();
        word
    }

    /// A name after its sigil, `%` or `@`.
    pub fn name(&mut self, sigil: &str) -> Result<&'a str> {
        self.expect(sigil)?;
        if sigil == "@" && self.starts_with("\"") {
            return self.string();
        }
        let (start, bytes) = (self.at, self.bytes());
        let is_part = |at: usize| match bytes.get(at) {
            Some(b'-') => bytes.get(at + 1) != Some(&b'>'),
            Some(&b) => is_name(b),
            None => false,
        };
        while is_part(self.at) {
            self.at += 1;
        }
        if start == self.at {
            return self.fail(start, format!("expected a name after `{sigil}`"));
        }
        Ok(&self.text[start..self.at])
    }

    /// The raw text between quotes.
    pub fn string(&mut self) -> Result<&'a str> {
        self.expect("\"")?;
        let (start, bytes) = (self.at, self.bytes());
        loop {
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return self.fail(start - 1, "this string has no end"),
            }
        }
        self.at += 1;
        match self.text.get(start..self.at - 1) {
            Some(text) => Ok(text),
            None => self.fail(start - 1, "this string has no end"),
        }
    }

    pub fn int(&mut self) -> Result<i64> {
        self.peek();
        let start = self.at;
        let negative = self.eat("-");
        let word = self.word();
        let digits = match word.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None if negative => format!("-{word}").parse().ok(),
            None => word.parse().ok(),
        };
        match digits {
            Some(n) => Ok(n),
            None => self.fail(start, "expected a whole number of 64 bits"),
        }
    }

    /// Items, possibly none, separated by commas, up to `close`.
    pub fn until<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(close)?;
        Ok(items)
    }

    /// Passes an opening bracket and everything up to its closing one.
    pub fn skip_brackets(&mut self) -> Result<()> {
        self.peek();
        let start = self.at;
        let mut open = 0usize;
        loop {
            match self.peek() {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'-' if self.starts_with("->") => self.at += 1,
                b'<' | b'(' | b'[' | b'{' => open += 1,
                b'>' | b')' | b']' | b'}' => open = open.saturating_sub(1),
                0 => return self.fail(start, "this bracket is not closed"),
                _ => {}
            }
            // A character may have several bytes.
            self.at += 1;
            while !self.text.is_char_boundary(self.at) {
                self.at += 1;
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// Passes `loc(…)`, if it is next.
    pub fn skip_location(&mut self) -> Result<()> {
        if self.eat_word("loc") { self.skip_brackets() } else { Ok(()) }
    }
}
