//! Events as lines of JSON in the Chrome dialect of DFTracer: objects without commas between them.

use super::buffer::Record;

/// An event of Python.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// Its name.
    pub name: &'a str,
    /// Class of such names.
    pub category: &'a str,
    /// Nanoseconds since the Unix epoch.
    pub start_ns: i64,
    /// Nanoseconds that it took.
    pub ns: u64,
    /// Name of a file.
    pub file: Option<&'a std::path::Path>,
    /// Names of its arguments, and their values as JSON.
    pub arguments: &'a [(String, String)],
}

/// What all lines of a process have in common.
pub(super) struct Common {
    /// Number of the process.
    pub(super) pid: u32,
    /// Hash of the host's name.
    pub(super) host: u64,
    /// Nanoseconds from the Unix epoch to what starts are counted from.
    pub(super) base_ns: i64,
}

/// Digits of a number below 10^20.
fn push_unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn push_signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_unsigned(out, value.unsigned_abs());
}

/// A hash as 16 digits.
fn push_hash(out: &mut Vec<u8>, hash: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0_u8; 16];
    for (i, digit) in digits.iter_mut().enumerate() {
        *digit = DIGITS[(hash >> (60 - 4 * i)) as usize & 15];
    }
    out.extend_from_slice(&digits);
}

/// Text between quotation marks.
pub(super) fn push_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                out.extend_from_slice(format!("\\u{:04x}", control as u32).as_bytes());
            }
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

impl Common {
    /// A line for the hash of a name: `HH` of a host, `FH` of a file, `SH` of a string.
    pub(super) fn push_name(&self, out: &mut Vec<u8>, sort: &str, thread: i32, name: &[u8], hash: u64) {
        self.push_metadata(out, sort, "dftracer", thread);
        out.extend_from_slice(b",\"name\":");
        push_quoted(out, &String::from_utf8_lossy(name));
        out.extend_from_slice(b",\"value\":\"");
        push_hash(out, hash);
        out.extend_from_slice(b"\"}}\n");
    }

    /// A line that says what the process is.
    pub(super) fn push_process(&self, out: &mut Vec<u8>, thread: i32, labels: &[(String, String)]) {
        self.push_metadata(out, "process", "kinema", thread);
        for (label, value) in labels {
            out.push(b',');
            push_quoted(out, label);
            out.push(b':');
            push_quoted(out, value);
        }
        out.extend_from_slice(b"}}\n");
    }

    fn push_metadata(&self, out: &mut Vec<u8>, name: &str, category: &str, thread: i32) {
        out.extend_from_slice(b"{\"name\":");
        push_quoted(out, name);
        out.extend_from_slice(b",\"cat\":");
        push_quoted(out, category);
        self.push_ids(out, thread);
        out.extend_from_slice(b",\"ph\":\"M\",\"args\":{\"hhash\":\"");
        push_hash(out, self.host);
        out.push(b'"');
    }

    fn push_ids(&self, out: &mut Vec<u8>, thread: i32) {
        out.extend_from_slice(b",\"pid\":");
        push_unsigned(out, u64::from(self.pid));
        out.extend_from_slice(b",\"tid\":");
        push_signed(out, i64::from(thread));
    }

    /// Everything of an event up to its own arguments.
    fn push_head(&self, out: &mut Vec<u8>, id: u64, thread: i32, start_ns: i64, ns: u64) {
        self.push_ids(out, thread);
        out.extend_from_slice(b",\"id\":");
        push_unsigned(out, id);
        out.extend_from_slice(b",\"ts\":");
        push_signed(out, start_ns.div_euclid(1000));
        out.extend_from_slice(b",\"dur\":");
        push_unsigned(out, ns / 1000);
        out.extend_from_slice(b",\"ph\":\"X\",\"args\":{\"hhash\":\"");
        push_hash(out, self.host);
        out.extend_from_slice(b"\",\"ns\":");
        push_unsigned(out, ns);
        out.extend_from_slice(b",\"start_ns\":");
        push_signed(out, start_ns);
    }

    /// The line of a record.
    pub(super) fn push_record(&self, out: &mut Vec<u8>, id: u64, recorder: i32, record: &Record) {
        let activity = record.activity;
        out.extend_from_slice(b"{\"name\":\"");
        out.extend_from_slice(activity.name.as_bytes());
        out.extend_from_slice(b"\",\"cat\":\"");
        out.extend_from_slice(activity.category.as_bytes());
        out.push(b'"');
        self.push_head(out, id, record.thread(recorder), self.base_ns + record.start, record.ns);
        if record.file != 0 {
            push_file(out, record.file);
        }
        for (name, &value) in activity.numbers.iter().zip(&record.values).filter(|(name, _)| !name.is_empty()) {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            push_signed(out, value);
        }
        out.extend_from_slice(b"}}\n");
    }

    /// The line of an event of Python; `file` is the hash of its file's name, 0: none.
    pub(super) fn push_text(&self, out: &mut Vec<u8>, id: u64, thread: i32, text: &Text<'_>, file: u64) {
        out.extend_from_slice(b"{\"name\":");
        push_quoted(out, text.name);
        out.extend_from_slice(b",\"cat\":");
        push_quoted(out, text.category);
        self.push_head(out, id, thread, text.start_ns, text.ns);
        if file != 0 {
            push_file(out, file);
        }
        for (name, value) in text.arguments {
            out.push(b',');
            push_quoted(out, name);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(b"}}\n");
    }
}

fn push_file(out: &mut Vec<u8>, file: u64) {
    out.extend_from_slice(b",\"fhash\":\"");
    push_hash(out, file);
    out.push(b'"');
}
