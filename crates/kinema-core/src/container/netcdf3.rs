//! NetCDF classic files: headers of CDF-1, CDF-2 and CDF-5, read and written; where the values of variables lie.
//!
//! Values are big-endian. Variables along the unlimited dimension lie record by record, the others as a whole. The
//! meaning of names is the format's business. Source: the specification of the classic file formats in the NetCDF
//! Users' Guide.

use crate::error::{Error, ErrorKind, Result};
use crate::source::Source;

/// How sizes and offsets are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Offsets of 32 bits.
    Classic = 1,
    /// Offsets of 64 bits.
    Offset64 = 2,
    /// Sizes and offsets of 64 bits.
    Data64 = 5,
}

/// Types of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Signed, 8 bits.
    Byte = 1,
    /// Text.
    Char = 2,
    /// Signed, 16 bits.
    Short = 3,
    /// Signed, 32 bits.
    Int = 4,
    /// IEEE single.
    Float = 5,
    /// IEEE double.
    Double = 6,
    /// Unsigned, 8 bits; this and those below in CDF-5 alone.
    UByte = 7,
    /// Unsigned, 16 bits.
    UShort = 8,
    /// Unsigned, 32 bits.
    UInt = 9,
    /// Signed, 64 bits.
    Int64 = 10,
    /// Unsigned, 64 bits.
    UInt64 = 11,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Byte,
        Self::Char,
        Self::Short,
        Self::Int,
        Self::Float,
        Self::Double,
        Self::UByte,
        Self::UShort,
        Self::UInt,
        Self::Int64,
        Self::UInt64,
    ];

    /// Bytes of a value.
    pub fn width(self) -> u64 {
        match self {
            Self::Byte | Self::Char | Self::UByte => 1,
            Self::Short | Self::UShort => 2,
            Self::Int | Self::Float | Self::UInt => 4,
            Self::Double | Self::Int64 | Self::UInt64 => 8,
        }
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text of type char, or of bytes that are read as text.
    Text(String),
    /// A float64; other numbers are read as such, the first of several.
    Double(f64),
}

/// A name and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// The value of an attribute of that name.
pub fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|one| one.name == name).map(|one| &one.value)
}

/// The text of an attribute of that name.
pub fn text<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    match attribute(attributes, name)? {
        Value::Text(text) => Some(text),
        Value::Double(_) => None,
    }
}

/// A dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// `None`: the unlimited one.
    pub len: Option<u64>,
}

/// A variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Numbers of its dimensions, the slowest first.
    pub dimensions: Vec<usize>,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// Type of its values.
    pub kind: Kind,
    /// Where it begins, or its part of the first record.
    pub begin: u64,
}

/// Contents of a header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// How sizes are written.
    pub version: Version,
    /// Number of records; `None` if the file was written as a stream: the size of the file tells it.
    pub records: Option<u64>,
    /// All dimensions.
    pub dimensions: Vec<Dimension>,
    /// Attributes of the file.
    pub attributes: Vec<Attribute>,
    /// All variables.
    pub variables: Vec<Variable>,
    /// Bytes of the header.
    pub len: u64,
}

/// Longer headers are taken for nonsense.
const LONGEST: u64 = 16 << 20;

/// Lists of a header.
const DIMENSIONS: u64 = 10;
const VARIABLES: u64 = 11;
const ATTRIBUTES: u64 = 12;

impl Header {
    /// Whether a file that begins with `head` is a classic one.
    pub fn sniff(head: &[u8]) -> bool {
        head.len() >= 4 && head.starts_with(b"CDF") && matches!(head[3], 1 | 2 | 5)
    }

    /// Reads the header of a file.
    ///
    /// # Errors
    /// `Corrupt` with the byte, `Truncated`, and those of the source.
    pub fn read(source: &dyn Source) -> Result<Self> {
        let size = source.len()?;
        let mut given = size.min(8 << 10);
        loop {
            let mut bytes = vec![0; given as usize];
            source.read_exact_at(0, &mut bytes)?;
            match Self::parse(&bytes) {
                Ok(header) => return Ok(header),
                Err(Fault::Short) if given < size.min(LONGEST) => given = (4 * given).min(size).min(LONGEST),
                Err(Fault::Short) if given == size => {
                    let what = "the file ends within its header";
                    return Err(Error::new(ErrorKind::Truncated, what).with_byte(size).with_path(source.path()));
                }
                Err(Fault::Short) => {
                    let what = format!("a header of more than {LONGEST} bytes");
                    return Err(Error::new(ErrorKind::Corrupt, what).with_path(source.path()));
                }
                Err(Fault::Wrong(error)) => return Err(error.with_path(source.path())),
            }
        }
    }

    /// The variable of that name.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// The length of the dimension `name`; `None` if there is none, or it is unlimited.
    pub fn dimension(&self, name: &str) -> Option<u64> {
        self.dimensions.iter().find(|one| one.name == name).and_then(|one| one.len)
    }

    /// Names of the dimensions of a variable.
    pub fn dimensions_of(&self, variable: &Variable) -> Vec<&str> {
        variable.dimensions.iter().filter_map(|&i| self.dimensions.get(i)).map(|one| one.name.as_str()).collect()
    }

    /// Whether a variable has values in each record.
    pub fn is_record(&self, variable: &Variable) -> bool {
        variable.dimensions.first().and_then(|&i| self.dimensions.get(i)).is_some_and(|first| first.len.is_none())
    }

    /// Bytes of the values of a variable, without padding; of one record if the variable has records.
    ///
    /// # Errors
    /// `Corrupt` for more than 2^63.
    pub fn size_of(&self, variable: &Variable) -> Result<u64> {
        let skipped = usize::from(self.is_record(variable));
        let lengths = variable.dimensions.iter().skip(skipped).map(|&i| self.dimensions.get(i).and_then(|one| one.len));
        let mut size = variable.kind.width();
        for len in lengths {
            let product = len.and_then(|len| size.checked_mul(len)).filter(|&product| product < 1 << 62);
            size = product.ok_or_else(|| {
                let what = format!("the variable {:?} is beyond any file", variable.name);
                Error::new(ErrorKind::Corrupt, what)
            })?;
        }
        Ok(size)
    }

    /// Bytes from one record to the next; 0 if no variable has records.
    ///
    /// # Errors
    /// As [`Header::size_of`].
    pub fn record_len(&self) -> Result<u64> {
        let mut sizes = Vec::new();
        for variable in self.variables.iter().filter(|variable| self.is_record(variable)) {
            sizes.push(self.size_of(variable)?);
        }
        // a single one is not padded
        if let [single] = sizes[..] {
            return Ok(single);
        }
        Ok(sizes.iter().map(|size| size.next_multiple_of(4)).fold(0, u64::saturating_add))
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, Fault> {
        let mut words = Words { bytes, at: 4, wide: false };
        if bytes.len() < 4 {
            return Err(Fault::Short);
        }
        let version = match bytes[3] {
            _ if !bytes.starts_with(b"CDF") => return Err(words.wrong("no NetCDF classic file", "CDF", "other bytes")),
            1 => Version::Classic,
            2 => Version::Offset64,
            5 => Version::Data64,
            other => return Err(words.wrong("version of the NetCDF classic format", "1, 2 or 5", other)),
        };
        words.wide = version == Version::Data64;
        let streaming = if words.wide { u64::MAX } else { u64::from(u32::MAX) };
        let records = Some(words.size()?).filter(|&records| records != streaming);
        let dimensions = words.list(DIMENSIONS, |words| {
            let name = words.name()?;
            Ok(Dimension { name, len: Some(words.size()?).filter(|&len| len != 0) })
        })?;
        let attributes = words.attributes()?;
        let n_dimensions = dimensions.len();
        let variables = words.list(VARIABLES, |words| {
            let name = words.name()?;
            let n = words.size()?;
            let mut own = Vec::new();
            for _ in 0..n {
                let number = words.size()?;
                match usize::try_from(number).ok().filter(|&number| number < n_dimensions) {
                    Some(number) => own.push(number),
                    None => return Err(words.wrong("number of a dimension", format!("below {n_dimensions}"), number)),
                }
            }
            let attributes = words.attributes()?;
            let kind = words.kind()?;
            // of large variables it is not true
            let _size = words.size()?;
            let begin = if version == Version::Classic { words.word()?.into() } else { words.double_word()? };
            Ok(Variable { name, dimensions: own, attributes, kind, begin })
        })?;
        Ok(Self { version, records, dimensions, attributes, variables, len: words.at as u64 })
    }

    /// Bytes of the header as it stands, with its number of records.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Out { bytes: b"CDF".to_vec(), wide: self.version == Version::Data64 };
        out.bytes.push(self.version as u8);
        out.size(self.records.unwrap_or(u64::MAX));
        out.list(DIMENSIONS, &self.dimensions, |out, one| {
            out.name(&one.name);
            out.size(one.len.unwrap_or(0));
        });
        out.attributes(&self.attributes);
        out.list(VARIABLES, &self.variables, |out, one| {
            out.name(&one.name);
            out.size(one.dimensions.len() as u64);
            one.dimensions.iter().for_each(|&i| out.size(i as u64));
            out.attributes(&one.attributes);
            out.word(one.kind as u32);
            // no reader uses the sizes of large variables
            let size = self.size_of(one).unwrap_or(u64::MAX - 3).next_multiple_of(4);
            out.size(if out.wide { size } else { size.min(u64::from(u32::MAX) - 3) });
            if self.version == Version::Classic {
                out.word(one.begin as u32);
            } else {
                out.bytes.extend(one.begin.to_be_bytes());
            }
        });
        out.bytes
    }
}

/// Why a header could not be had.
enum Fault {
    /// It continues after the given bytes.
    Short,
    Wrong(Error),
}

/// Items of a header, one after the other.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether sizes have 64 bits.
    wide: bool,
}

impl<'a> Words<'a> {
    fn wrong(&self, what: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Fault {
        Fault::Wrong(Error::corrupt(what, expected, found).with_byte(self.at as u64))
    }

    fn take(&mut self, len: u64) -> std::result::Result<&'a [u8], Fault> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len)).ok_or(Fault::Short)?;
        let taken = self.bytes.get(self.at..end).ok_or(Fault::Short)?;
        self.at = end;
        Ok(taken)
    }

    fn word(&mut self) -> std::result::Result<u32, Fault> {
        Ok(self.take(4)?.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    fn double_word(&mut self) -> std::result::Result<u64, Fault> {
        Ok(self.take(8)?.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }

    fn size(&mut self) -> std::result::Result<u64, Fault> {
        if self.wide { self.double_word() } else { self.word().map(u64::from) }
    }

    fn name(&mut self) -> std::result::Result<String, Fault> {
        let len = self.size()?;
        let text = String::from_utf8_lossy(self.take(len)?).into_owned();
        self.take(len.next_multiple_of(4) - len)?;
        Ok(text)
    }

    fn kind(&mut self) -> std::result::Result<Kind, Fault> {
        let found = self.word()?;
        let kind = Kind::ALL.into_iter().find(|&kind| kind as u32 == found);
        kind.ok_or_else(|| self.wrong("type of a NetCDF value", "1 to 11", found))
    }

    /// A list with its tag, or the two zeros of an absent one.
    fn list<T>(
        &mut self,
        tag: u64,
        item: impl Fn(&mut Self) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<Vec<T>, Fault> {
        let found = u64::from(self.word()?);
        let n = self.size()?;
        if found != tag && (found, n) != (0, 0) {
            return Err(self.wrong("tag of a list in the header", format!("{tag} or 0"), found));
        }
        // no more than there are bytes for
        let mut items = Vec::new();
        for _ in 0..n {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn attributes(&mut self) -> std::result::Result<Vec<Attribute>, Fault> {
        self.list(ATTRIBUTES, |words| {
            let name = words.name()?;
            let kind = words.kind()?;
            let n = words.size()?;
            let len = n.checked_mul(kind.width()).filter(|&len| len < LONGEST).ok_or(Fault::Short)?;
            let bytes = words.take(len)?;
            words.take(len.next_multiple_of(4) - len)?;
            Ok(Attribute { name, value: value(kind, bytes) })
        })
    }
}

/// Text, or the first number.
fn value(kind: Kind, bytes: &[u8]) -> Value {
    let number = |wide: u64, signed: bool| {
        let first = bytes.get(..wide as usize).unwrap_or_default();
        let bits = first.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        let shift = 64 - 8 * wide as u32;
        if signed { ((bits << shift).cast_signed() >> shift) as f64 } else { bits as f64 }
    };
    let bits = |len: usize| bytes.get(..len);
    let float =
        || bits(4).and_then(|first| first.try_into().ok()).map_or(f64::NAN, |four| f32::from_be_bytes(four).into());
    let double = || bits(8).and_then(|first| first.try_into().ok()).map_or(f64::NAN, f64::from_be_bytes);
    Value::Double(match kind {
        Kind::Char => {
            let text = String::from_utf8_lossy(bytes);
            return Value::Text(text.trim_end_matches(['\0', ' ']).to_owned());
        }
        _ if bytes.is_empty() => f64::NAN,
        Kind::Float => float(),
        Kind::Double => double(),
        Kind::Byte | Kind::Short | Kind::Int | Kind::Int64 => number(kind.width(), true),
        Kind::UByte | Kind::UShort | Kind::UInt | Kind::UInt64 => number(kind.width(), false),
    })
}

/// Bytes of a header that is made.
struct Out {
    bytes: Vec<u8>,
    wide: bool,
}

impl Out {
    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_be_bytes());
    }

    fn size(&mut self, size: u64) {
        if self.wide {
            self.bytes.extend(size.to_be_bytes());
        } else {
            self.word(u32::try_from(size).unwrap_or(u32::MAX));
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn name(&mut self, name: &str) {
        self.size(name.len() as u64);
        self.bytes.extend(name.bytes());
        self.pad();
    }

    fn list<T>(&mut self, tag: u64, items: &[T], item: impl Fn(&mut Self, &T)) {
        self.word(if items.is_empty() { 0 } else { tag as u32 });
        self.size(items.len() as u64);
        items.iter().for_each(|one| item(self, one));
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        self.list(ATTRIBUTES, attributes, |out, one| {
            out.name(&one.name);
            match &one.value {
                Value::Text(text) => {
                    out.word(Kind::Char as u32);
                    out.size(text.len() as u64);
                    out.bytes.extend(text.bytes());
                    out.pad();
                }
                Value::Double(number) => {
                    out.word(Kind::Double as u32);
                    out.size(1);
                    out.bytes.extend(number.to_be_bytes());
                }
            }
        });
    }
}
