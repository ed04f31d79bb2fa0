//! Fortran's sequential unformatted records: a length before and after, in one of two widths and byte orders.

/// How integers and lengths are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Most significant byte first.
    pub big_endian: bool,
    /// Record lengths in 8 bytes (some compilers' option) instead of 4.
    pub wide_markers: bool,
}

impl Layout {
    /// Finds the layout from a file's first bytes, given the length of its first record.
    pub fn detect(head: &[u8], first_record: u32) -> Option<Self> {
        // the wide ones first: a wide little-endian marker begins like a narrow one
        let candidates = [(true, true), (true, false), (false, true), (false, false)];
        let layouts = candidates.map(|(wide_markers, big_endian)| Self { big_endian, wide_markers });
        layouts.into_iter().find(|layout| layout.marker(head) == Some(u64::from(first_record)))
    }

    /// Bytes of one record length.
    pub fn marker_len(self) -> u64 {
        if self.wide_markers { 8 } else { 4 }
    }

    /// Bytes of a record with `payload` bytes.
    pub fn record_len(self, payload: u64) -> u64 {
        payload + 2 * self.marker_len()
    }

    /// The record length at the start of `bytes`; `None` if there are too few bytes or it is negative.
    pub fn marker(self, bytes: &[u8]) -> Option<u64> {
        if self.wide_markers {
            let bytes = *bytes.first_chunk::<8>()?;
            let value = if self.big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
            u64::try_from(value).ok()
        } else {
            u64::try_from(self.int(*bytes.first_chunk::<4>()?)).ok()
        }
    }

    /// The `payload` bytes of the record at byte `at` of `bytes`.
    ///
    /// # Errors
    /// The place in `bytes` of the first length that differs, and that length, as [`Layout::marker`] gives it.
    pub fn payload(self, bytes: &[u8], at: u64, payload: u64) -> Result<&[u8], (u64, Option<u64>)> {
        let start = at.saturating_add(self.marker_len());
        let end = start.saturating_add(payload);
        for place in [at, end] {
            let found = bytes.get(place as usize..).and_then(|bytes| self.marker(bytes));
            if found != Some(payload) {
                return Err((place, found));
            }
        }
        Ok(&bytes[start as usize..end as usize])
    }

    /// A 32-bit integer.
    pub fn int(self, bytes: [u8; 4]) -> i32 {
        if self.big_endian { i32::from_be_bytes(bytes) } else { i32::from_le_bytes(bytes) }
    }

    /// A 32-bit float.
    pub fn float(self, bytes: [u8; 4]) -> f32 {
        if self.big_endian { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) }
    }

    /// A 64-bit float.
    pub fn double(self, bytes: [u8; 8]) -> f64 {
        if self.big_endian { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) }
    }
}
