//! Enumerations whose values have names: declared once, for the Python module and its messages.

use std::mem::discriminant;

use crate::error::{Error, ErrorKind, Result};

/// An option with a list of named values.
pub trait Named: Copy + 'static {
    /// Name of the option.
    const OPTION: &'static str;
    /// All values with their names.
    const ALL: &'static [(&'static str, Self)];

    /// The name of this value; data that a variant carries makes no difference.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, value)| discriminant(value) == discriminant(&self)).map_or("", |(name, _)| name)
    }

    /// The value of that name.
    ///
    /// # Errors
    /// `InvalidArgument`, listing the names.
    fn from_name(name: &str) -> Result<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = Self::ALL.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let what = format!("{}=\"{name}\" is not one of {}", Self::OPTION, names.join(", "));
            Error::new(ErrorKind::InvalidArgument, what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Access;
    use crate::trajectory::{IndexOrigin, IndexPolicy, OnTruncated, Overlap};

    fn round_trip<T: Named>(expected: &[&str]) {
        let names: Vec<&str> = T::ALL.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected);
        assert!(names.iter().all(|name| T::from_name(name).unwrap().name() == *name));
    }

    #[test]
    fn every_value_has_its_name() {
        round_trip::<Overlap>(&["last", "first", "all"]);
        round_trip::<OnTruncated>(&["error", "drop"]);
        round_trip::<IndexPolicy>(&["auto", "memory", "rebuild"]);
        round_trip::<IndexOrigin>(&["arithmetic", "structure", "stored", "extended", "built"]);
        round_trip::<Access>(&["direct", "frame", "subset", "in-memory"]);
        assert_eq!(Access::InMemory { pieces: 3 }.name(), "in-memory");
        let error = Overlap::from_name("both").unwrap_err();
        assert_eq!(error.to_string(), "overlap=\"both\" is not one of \"last\", \"first\", \"all\"");
    }
}
