//! Events as lines of JSON in the Chrome dialect of DFTracer: objects without commas between them.

use super::activity::Activity;
use super::buffer::Record;
use super::journal;

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

/// Values that all lines of a process share.
pub(super) struct Common {
    /// Number of the process.
    pub(super) pid: u32,
    /// Hash of the host's name.
    pub(super) host: u64,
    /// Nanoseconds from the Unix epoch to what starts are counted from.
    pub(super) base_ns: i64,
}

/// 00 to 99.
static TWO_DIGITS: [u8; 200] = {
    let (mut digits, mut value) = ([0; 200], 0);
    while value < 100 {
        digits[2 * value] = b'0' + (value / 10) as u8;
        digits[2 * value + 1] = b'0' + (value % 10) as u8;
        value += 1;
    }
    digits
};

/// The digits of a number.
struct Digits([u8; 20], usize);

impl Digits {
    fn new(mut value: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut at = digits.len();
        // two at a time: divisions are what takes the time
        while value >= 100 {
            let two = 2 * (value % 100) as usize;
            value /= 100;
            at -= 2;
            digits[at..at + 2].copy_from_slice(&TWO_DIGITS[two..two + 2]);
        }
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        if value >= 10 {
            at -= 1;
            digits[at] = b'0' + (value / 10) as u8;
        }
        Self(digits, at)
    }

    fn all(&self) -> &[u8] {
        &self.0[self.1..]
    }

    /// Digits of a thousandth of the number, rounded down.
    fn thousandth(&self) -> &[u8] {
        if self.1 < 17 { &self.0[self.1..17] } else { b"0" }
    }
}

fn push_unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(Digits::new(value).all());
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
        // times before 1970 cannot be times of events
        let (start, took) = (Digits::new(start_ns.max(0) as u64), Digits::new(ns));
        out.extend_from_slice(b",\"ts\":");
        out.extend_from_slice(start.thousandth());
        out.extend_from_slice(b",\"dur\":");
        out.extend_from_slice(took.thousandth());
        out.extend_from_slice(b",\"ph\":\"X\",\"args\":{\"hhash\":\"");
        push_hash(out, self.host);
        out.extend_from_slice(b"\",\"ns\":");
        out.extend_from_slice(took.all());
        out.extend_from_slice(b",\"start_ns\":");
        out.extend_from_slice(start.all());
    }

    /// Adds the line of an event of Python; `file` is the hash of its file's name, 0: no file.
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

/// Text that the lines of one activity and thread share.
struct Head {
    activity: &'static Activity,
    thread: i32,
    front: Vec<u8>,
    /// Text before each number; empty if there is no such number.
    numbers: [Vec<u8>; 3],
}

impl Head {
    fn new(common: &Common, activity: &'static Activity, thread: i32) -> Self {
        let mut front = format!("{{\"name\":\"{}\",\"cat\":\"{}\"", activity.name, activity.category).into_bytes();
        common.push_ids(&mut front, thread);
        front.extend_from_slice(b",\"id\":");
        let before = |name: &str| if name.is_empty() { Vec::new() } else { format!(",\"{name}\":").into_bytes() };
        Self { activity, thread, front, numbers: activity.numbers.map(before) }
    }
}

/// Lines of records, and prepared text for them.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) text: Vec<u8>,
    /// Hashes of the files in them.
    pub(super) files: Vec<u64>,
    heads: Vec<Head>,
    /// From the duration in microseconds to that in nanoseconds.
    middle: Vec<u8>,
    /// The last file, and its prepared text.
    file: (u64, Vec<u8>),
}

impl Lines {
    /// Clears everything, perhaps for another journal.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.files.clear();
        self.heads.clear();
        self.middle.clear();
        self.file.0 = 0;
    }

    /// Adds the line of a record.
    pub(super) fn push(&mut self, common: &Common, id: u64, record: &Record) {
        let (activity, thread) = (record.activity, record.thread());
        let same = |head: &Head| std::ptr::eq(head.activity, activity) && head.thread == thread;
        let at = self.heads.iter().position(same).unwrap_or_else(|| {
            self.heads.push(Head::new(common, activity, thread));
            self.heads.len() - 1
        });
        if self.middle.is_empty() {
            self.middle.extend_from_slice(b",\"ph\":\"X\",\"args\":{\"hhash\":\"");
            push_hash(&mut self.middle, common.host);
            self.middle.extend_from_slice(b"\",\"ns\":");
        }
        if record.file != self.file.0 {
            self.file.0 = record.file;
            self.file.1.clear();
            if record.file != 0 {
                push_file(&mut self.file.1, record.file);
                if !self.files.contains(&record.file) {
                    self.files.push(record.file);
                }
            }
        }
        // times before 1970 cannot be times of events
        let start = Digits::new((common.base_ns + journal::nanoseconds_from_base(record.start)).max(0) as u64);
        let took = Digits::new(record.duration.as_nanos() as u64);
        let (out, head) = (&mut self.text, &self.heads[at]);
        out.extend_from_slice(&head.front);
        push_unsigned(out, id);
        out.extend_from_slice(b",\"ts\":");
        out.extend_from_slice(start.thousandth());
        out.extend_from_slice(b",\"dur\":");
        out.extend_from_slice(took.thousandth());
        out.extend_from_slice(&self.middle);
        out.extend_from_slice(took.all());
        out.extend_from_slice(b",\"start_ns\":");
        out.extend_from_slice(start.all());
        if record.file != 0 {
            out.extend_from_slice(&self.file.1);
        }
        for (before, &value) in head.numbers.iter().zip(&record.values).filter(|(before, _)| !before.is_empty()) {
            out.extend_from_slice(before);
            push_signed(out, value);
        }
        out.extend_from_slice(b"}}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        for value in (0..2000).chain([99_999, 100_000, 12_345_678, 1_795_417_724_871_809_135, u64::MAX]) {
            let digits = Digits::new(value);
            assert_eq!(digits.all(), value.to_string().as_bytes());
            assert_eq!(digits.thousandth(), (value / 1000).to_string().as_bytes());
        }
    }
}
