//! Splits a stream of JSON into its records, by brackets and quotes alone: what a record holds is for the service to
//! judge, and some of it (a bare `NaN`, 200 levels) is more than a JSON reader takes.

use std::io::{self, BufRead};

/// A record is at most this large: 16 MiB, and room for its escapes.
const RECORD_BYTES: usize = 33 << 20;

/// The records of a JSON array, of JSON lines, or of JSON values one after the other.
pub(super) struct Records<R> {
    input: R,
    /// Whether the stream is one array; known with its first byte.
    is_array: Option<bool>,
    is_over: bool,
    /// Bytes read so far.
    pub(super) bytes: u64,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, is_array: None, is_over: false, bytes: 0 }
    }

    /// The text of the next record.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(first) = self.first_byte()? else { return Ok(None) };
        let mut record = vec![first];
        let mut place = Place::default();
        place.pass(first);
        // A number or a word has no end of its own.
        let is_bare = !matches!(first, b'{' | b'[' | b'"');
        loop {
            if !is_bare && place.is_outside() {
                return Ok(Some(record));
            }
            let Some(byte) = self.peek()? else {
                return if is_bare {
                    Ok(Some(record))
                } else {
                    Err(broken("ends in the middle of a record"))
                };
            };
            if is_bare && (byte.is_ascii_whitespace() || matches!(byte, b',' | b']')) {
                return Ok(Some(record));
            }
            self.take();
            place.pass(byte);
            record.push(byte);
            if record.len() > RECORD_BYTES {
                return Err(broken("holds a record above 16 MiB, or one with a bracket or quote missing"));
            }
        }
    }

    /// Passes over what stands between records.
    fn first_byte(&mut self) -> io::Result<Option<u8>> {
        loop {
            let Some(byte) = self.peek()? else {
                if self.is_array == Some(true) && !self.is_over {
                    return Err(broken("ends before its array does"));
                }
                return Ok(None);
            };
            self.take();
            match byte {
                // A byte order mark is whitespace at the beginning.
                b' ' | b'\t' | b'\r' | b'\n' => {}
                0xEF | 0xBB | 0xBF if self.is_array.is_none() => {}
                b'[' if self.is_array.is_none() => self.is_array = Some(true),
                b',' if self.is_array == Some(true) && !self.is_over => {}
                b']' if self.is_array == Some(true) && !self.is_over => self.is_over = true,
                _ if self.is_over => return Err(broken("goes on after its array")),
                first => {
                    self.is_array.get_or_insert(false);
                    return Ok(Some(first));
                }
            }
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn take(&mut self) {
        self.input.consume(1);
        self.bytes += 1;
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn broken(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the input {problem}"))
}

/// Where a scan stands within a value.
#[derive(Default)]
struct Place {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Place {
    fn pass(&mut self, byte: u8) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if self.in_string {
            match byte {
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_outside(&self) -> bool {
        self.depth == 0 && !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<Vec<String>, String> {
        // A small buffer, so that records cross its border.
        Records::new(io::BufReader::with_capacity(3, text.as_bytes()))
            .map(|record| {
                record.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|err| err.to_string())
            })
            .collect()
    }

    #[test]
    fn arrays_lines_and_single_values_are_split() {
        let two = Ok(vec![r#"{"a":"}]\"\\"}"#.to_owned(), r#"{"b":[1,{}]}"#.to_owned()]);
        for text in [
            r#"[{"a":"}]\"\\"},{"b":[1,{}]}]"#,
            " [ {\"a\":\"}]\\\"\\\\\"} ,\n{\"b\":[1,{}]} ]\n",
            "{\"a\":\"}]\\\"\\\\\"}\n{\"b\":[1,{}]}\n",
            "\u{feff}{\"a\":\"}]\\\"\\\\\"}{\"b\":[1,{}]}",
        ] {
            assert_eq!(split(text), two, "{text}");
        }
        assert_eq!(split("{\"a\": NaN}"), Ok(vec!["{\"a\": NaN}".to_owned()]));
        assert_eq!(split("[1,null,\"x\"]"), Ok(vec!["1".into(), "null".into(), "\"x\"".into()]));
        for nothing in ["", "\n", "[]", " [ ] "] {
            assert_eq!(split(nothing), Ok(vec![]), "{nothing}");
        }
        let deep = format!("{}{}", "{\"a\":[".repeat(500), "]}".repeat(500));
        assert_eq!(split(&deep), Ok(vec![deep.clone()]));
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_an_error() {
        for (text, problem) in [
            ("{\"a\":1", "the input ends in the middle of a record"),
            ("{\"a\":\"}", "the input ends in the middle of a record"),
            ("[{}", "the input ends before its array does"),
            ("[{}] {}", "the input goes on after its array"),
        ] {
            assert_eq!(split(text), Err(problem.to_owned()), "{text}");
        }
    }
}
