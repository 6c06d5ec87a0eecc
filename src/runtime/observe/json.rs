//! JSON, as much of it as reports need.

use std::fmt::{Display, Write};

/// A JSON object under construction: fields in the order given.
#[derive(Default)]
pub struct Object(String);

impl Object {
    /// A number, or anything else that is JSON already.
    pub fn raw(mut self, name: &str, value: impl Display) -> Object {
        let comma = if self.0.is_empty() { "" } else { ", " };
        let _ = write!(self.0, "{comma}\"{name}\": {value}");
        self
    }

    pub fn text(self, name: &str, value: &str) -> Object {
        self.raw(name, quoted(value))
    }

    pub fn end(self) -> String {
        format!("{{{}}}", self.0)
    }
}

pub fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

/// A JSON string.
pub fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", c as u32);
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_nest_and_texts_are_escaped() {
        let inner = Object::default().raw("n", 1).end();
        let outer = Object::default().text("a", "\"x\\\n").raw("l", list([inner])).end();
        assert_eq!(outer, "{\"a\": \"\\\"x\\\\\\u000a\", \"l\": [{\"n\": 1}]}");
        assert_eq!(Object::default().end(), "{}");
    }
}
