//! Text to [`Value`].

use std::borrow::Cow;

use super::{MAX_DEPTH, Members, ParseError, Value};

/// Reads one value: strict JSON, nothing after it but white space.
pub fn parse(text: &str) -> Result<Value<'_>, ParseError> {
    whole(Reader::new(text, false))
}

/// Reads an image as Debezium writes it: as [`parse`], but the bare tokens `NaN`, `Infinity` and `-Infinity`
/// are read as `{"$numberDouble": "NaN"}` and so on.
pub fn parse_image(text: &str) -> Result<Value<'_>, ParseError> {
    whole(Reader::new(text, true))
}

fn whole(mut reader: Reader<'_>) -> Result<Value<'_>, ParseError> {
    reader.blanks();
    let value = reader.value()?;
    reader.blanks();
    if reader.at < reader.bytes.len() {
        return reader.fail("something after the end of the value");
    }
    Ok(value)
}

/// Reads value after value, strict JSON with white space between them: JSON lines, and files put together.
/// After an error it ends.
#[derive(Debug)]
pub struct Values<'a>(Reader<'a>);

impl<'a> Values<'a> {
    /// The values of this text.
    pub fn new(text: &'a str) -> Self {
        Self(Reader::new(text, false))
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Value<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.blanks();
        if self.0.at >= self.0.bytes.len() {
            return None;
        }
        let value = self.0.value();
        if value.is_err() {
            self.0.at = self.0.bytes.len();
        }
        Some(value)
    }
}

#[derive(Debug)]
struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    bare_non_finite: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, bare_non_finite: bool) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, depth: 0, bare_non_finite }
    }

    fn fail<T>(&self, problem: &'static str) -> Result<T, ParseError> {
        Err(ParseError { at: self.at, problem })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    /// The value that begins here, without blanks before it.
    fn value(&mut self) -> Result<Value<'a>, ParseError> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'-' | b'0'..=b'9') => {
                if self.bare_non_finite && self.take("-Infinity") {
                    return Ok(non_finite("-Infinity"));
                }
                self.number()
            }
            Some(b't') if self.take("true") => Ok(Value::Bool(true)),
            Some(b'f') if self.take("false") => Ok(Value::Bool(false)),
            Some(b'n') if self.take("null") => Ok(Value::Null),
            Some(b'N') if self.bare_non_finite && self.take("NaN") => Ok(non_finite("NaN")),
            Some(b'I') if self.bare_non_finite && self.take("Infinity") => Ok(non_finite("Infinity")),
            Some(_) => self.fail("no value"),
            None => self.fail("the text ends within a value"),
        }
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Value<'a>, ParseError>,
    ) -> Result<Value<'a>, ParseError> {
        if self.depth == MAX_DEPTH {
            return self.fail("nested too deep");
        }
        self.depth += 1;
        self.at += 1;
        self.blanks();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Value<'a>, ParseError> {
        let mut elements = Vec::new();
        if self.take("]") {
            return Ok(Value::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            if self.ends(b']')? {
                return Ok(Value::Array(elements));
            }
        }
    }

    fn object(&mut self) -> Result<Value<'a>, ParseError> {
        let mut members = Members::new();
        if self.take("}") {
            return Ok(Value::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.fail("no member name");
            }
            let name = self.string()?;
            self.blanks();
            if !self.take(":") {
                return self.fail("no colon after a member name");
            }
            self.blanks();
            members.push((name, self.value()?));
            if self.ends(b'}')? {
                return Ok(Value::Object(members));
            }
        }
    }

    /// After an element: whether the array or object ends, or goes on.
    fn ends(&mut self, end: u8) -> Result<bool, ParseError> {
        self.blanks();
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(true)
            }
            Some(b',') => {
                self.at += 1;
                self.blanks();
                Ok(false)
            }
            Some(_) => self.fail("neither a comma nor an end"),
            None => self.fail("the text ends within an array or object"),
        }
    }

    fn number(&mut self) -> Result<Value<'a>, ParseError> {
        let length = number_length(&self.bytes[self.at..]);
        if length == 0 {
            return self.fail("no number");
        }
        let digits = &self.text[self.at..self.at + length];
        self.at += length;
        match self.peek() {
            Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') => self.fail("a number written wrongly"),
            _ => Ok(Value::Number(digits)),
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, ParseError> {
        self.at += 1;
        let start = self.plain_run();
        if self.peek() == Some(b'"') {
            let text = &self.text[start..self.at];
            self.at += 1;
            return Ok(Cow::Borrowed(text));
        }
        let mut unescaped = String::with_capacity(2 * (self.at - start) + 16);
        unescaped.push_str(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(unescaped));
                }
                Some(b'\\') => {
                    let character = self.escape()?;
                    unescaped.push(character);
                }
                Some(_) => return self.fail("a raw control character in a string"),
                None => return self.fail("the text ends within a string"),
            }
            let start = self.plain_run();
            unescaped.push_str(&self.text[start..self.at]);
        }
    }

    /// Passes over what stands for itself in a string. Returns where it began.
    fn plain_run(&mut self) -> usize {
        let start = self.at;
        let plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
        self.at += self.bytes[start..].iter().take_while(|byte| plain(byte)).count();
        start
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let character = match self.bytes.get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return self.fail("an unknown escape in a string"),
        };
        self.at += 2;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, ParseError> {
        let Some(first) = self.code_unit(self.at) else { return self.fail("a broken \\u escape") };
        let (code, length) = match first {
            0xd800..=0xdbff => match self.code_unit(self.at + 6) {
                Some(second @ 0xdc00..=0xdfff) => {
                    (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
                }
                _ => return self.fail("half a surrogate pair"),
            },
            _ => (first, 6),
        };
        match char::from_u32(code) {
            Some(character) => {
                self.at += length;
                Ok(character)
            }
            None => self.fail("half a surrogate pair"),
        }
    }

    /// The code unit of the escape `\uXXXX` at a place.
    fn code_unit(&self, at: usize) -> Option<u32> {
        let escape = self.bytes.get(at..at + 6)?;
        if !escape.starts_with(b"\\u") {
            return None;
        }
        escape[2..].iter().try_fold(0, |code, byte| Some(code * 16 + char::from(*byte).to_digit(16)?))
    }
}

fn non_finite(token: &'static str) -> Value<'static> {
    Value::Object(vec![(Cow::Borrowed("$numberDouble"), Value::String(Cow::Borrowed(token)))])
}

/// Whether the whole text is a number of JSON's grammar.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && number_length(text.as_bytes()) == text.len()
}

/// How many bytes at the beginning are a number of JSON's grammar; 0: none.
fn number_length(bytes: &[u8]) -> usize {
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    match bytes.get(at) {
        Some(b'0') => at += 1,
        Some(b'1'..=b'9') => at += digits(at),
        _ => return 0,
    }
    if bytes.get(at) == Some(&b'.') {
        match digits(at + 1) {
            0 => return 0,
            count => at += 1 + count,
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        match digits(at + 1 + sign) {
            0 => return 0,
            count => at += 1 + sign + count,
        }
    }
    at
}
