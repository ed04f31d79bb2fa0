//! Changes of an input that keep what a decoder compares first: counts with sizes, markers with lengths, frames whole.
//!
//! Randomly changed bytes are usually refused at the first header; these are refused later, or decoded. Half of all
//! changes are libFuzzer's own, called here as `default`.

use kinema_core::container::hdf5::filters::{FilterScratch, Pipeline, StoredFilter};
use kinema_core::format::{Format, ScanOptions};
use kinema_core::source::MemorySource;

use crate::hdf5_filters::{Input, head};

/// Ratios of related numbers in headers: a number of atoms, and the bytes of as many numbers, vectors and so on.
const MULTIPLES: [u32; 8] = [1, 3, 4, 8, 12, 24, 36, 72];
/// Values at which decoders change their way.
const EDGES: [u32; 14] = [0, 1, 2, 3, 8, 9, 10, 63, 255, 256, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
/// Texts that look like numbers and are not, or only just.
const TEXTS: [&[u8]; 14] = [
    b"NaN",
    b"-inf",
    b"1e999",
    b"1d-400",
    b"-0",
    b"0",
    b"*****",
    b"1.",
    b".",
    b"+",
    b"4294967296",
    b"99999999999999999999",
    b"1e-5",
    b"0x1p3",
];

/// Numbers from a seed (xorshift, G. Marsaglia, J. Stat. Softw. 8 (2003) 14).
struct Random(u64);

impl Random {
    fn new(seed: u32) -> Self {
        Self(u64::from(seed) << 20 | 0x9e37_79b9)
    }

    /// Below `n`, which is not zero.
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Changes the first `size` of `data`; the new size, at most `max_size`. `default` is libFuzzer's own change.
pub fn change(
    format: Option<&dyn Format>,
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    default: impl Fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut random = Random::new(seed);
    if random.below(2) == 0 || size < 8 {
        return default(data, size, max_size);
    }
    let mut file = data[..size].to_vec();
    for _ in 0..1 + random.below(2) {
        match (random.below(8), format) {
            (0..3, _) => numbers(&mut file, &mut random),
            (3, _) => record(&mut file, &mut random),
            (4, _) if file.is_ascii() => lines(&mut file, &mut random),
            (4 | 5, Some(format)) => frames(&mut file, format, &mut random),
            (6, Some(format)) => tail(&mut file, format, &mut random),
            _ if file.is_ascii() => token(&mut file, &mut random),
            _ => numbers(&mut file, &mut random),
        }
    }
    // a file that is too long is cut, as files may be
    let len = file.len().min(max_size);
    data[..len].copy_from_slice(&file[..len]);
    if random.below(4) == 0 { default(data, len, max_size) } else { len }
}

fn word(file: &[u8], at: usize, big: bool) -> Option<u32> {
    let bytes = *file.get(at..)?.first_chunk::<4>()?;
    Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
}

fn put(file: &mut [u8], at: usize, big: bool, value: u32) {
    let bytes = if big { value.to_be_bytes() } else { value.to_le_bytes() };
    if let Some(place) = file.get_mut(at..at + 4) {
        place.copy_from_slice(&bytes);
    }
}

/// Replaces a number at any place, and its multiples with it.
fn numbers(file: &mut [u8], random: &mut Random) {
    if file.len() < 4 {
        return;
    }
    let (at, big) = (random.below(file.len() - 3), random.below(2) == 0);
    let Some(old) = word(file, at, big) else { return };
    let new = match random.below(4) {
        0 => *random.of(&EDGES),
        1 => old.wrapping_add(*random.of(&[1, 2, 4, 12, 0xffff_ffff, 0xffff_fffe, 0xffff_fffc])),
        2 => *random.of(&[old.wrapping_mul(2), old / 2, old ^ 0x8000_0000, old.swap_bytes()]),
        _ => random.below(600) as u32,
    };
    put(file, at, big, new);
    // zeros and ones mean many things
    if old < 2 || random.below(4) == 0 {
        return;
    }
    for other in (at % 4..file.len().saturating_sub(3)).step_by(4) {
        let found = word(file, other, big);
        if let Some(times) = MULTIPLES.iter().find(|times| old.checked_mul(**times) == found && found.is_some()) {
            put(file, other, big, new.wrapping_mul(*times));
        }
    }
}

/// A Fortran record (its length before and after it) is made longer or shorter, doubled or removed.
fn record(file: &mut Vec<u8>, random: &mut Random) {
    let big = random.below(2) == 0;
    let all: Vec<(usize, usize)> = (0..file.len())
        .filter_map(|at| {
            let len = word(file, at, big)? as usize;
            let end = at.checked_add(8)?.checked_add(len)?;
            (len > 0 && word(file, at + 4 + len, big)? as usize == len && end <= file.len()).then_some((at, len))
        })
        .collect();
    if all.is_empty() {
        return;
    }
    let (at, len) = *random.of(&all);
    match random.below(4) {
        0 => {
            let copy = file[at..at + 8 + len].to_vec();
            file.splice(at..at, copy);
        }
        1 => drop(file.drain(at..at + 8 + len)),
        _ => {
            let by = 4 * (1 + random.below(4));
            let new = if random.below(2) == 0 { len + by } else { len.saturating_sub(by) };
            let mut inner = file[at + 4..at + 4 + len].to_vec();
            inner.resize(new, 0x40);
            file.splice(at + 4..at + 4 + len, inner);
            put(file, at, big, new as u32);
            put(file, at + 4 + new, big, new as u32);
        }
    }
}

/// Byte ranges of the frames of a file.
fn extents(file: &[u8], format: &dyn Format) -> Vec<(usize, usize)> {
    let source = MemorySource::new("fuzz", file);
    let Ok(decoder) = format.open(&source) else { return Vec::new() };
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: true };
    let Ok(scan) = decoder.scan(&source, &options) else { return Vec::new() };
    (0..scan.index.n_frames().min(1000))
        .map(|frame| scan.index.extent(frame))
        .map(|extent| (extent.offset as usize, extent.end() as usize))
        .filter(|(start, end)| start < end && *end <= file.len())
        .collect()
}

/// A frame is doubled, removed, cut, or takes the place of another.
fn frames(file: &mut Vec<u8>, format: &dyn Format, random: &mut Random) {
    let all = extents(file, format);
    if all.is_empty() {
        return;
    }
    let ((start, end), (other, other_end)) = (*random.of(&all), *random.of(&all));
    let frame = file[start..end].to_vec();
    match random.below(4) {
        0 => drop(file.splice(other..other, frame)),
        1 => drop(file.drain(start..end)),
        2 => drop(file.splice(other..other_end, frame)),
        _ => drop(file.drain(start + random.below(end - start)..end)),
    }
}

/// Changes a length in a frame that counts bytes to the end of the frame (coordinates of XTC), and these bytes with it.
fn tail(file: &mut Vec<u8>, format: &dyn Format, random: &mut Random) {
    let all = extents(file, format);
    if all.is_empty() {
        return;
    }
    let (start, end) = *random.of(&all);
    let lengths: Vec<(usize, u32)> = (start..end.saturating_sub(4))
        .step_by(4)
        .filter_map(|at| word(file, at, true).map(|len| (at, len)))
        .filter(|(at, len)| (at + 4 + *len as usize).next_multiple_of(4) == end.next_multiple_of(4))
        .collect();
    if lengths.is_empty() {
        return;
    }
    let (at, len) = *random.of(&lengths);
    let new = if random.below(2) == 0 {
        len + 1 + random.below(40) as u32
    } else {
        len - random.below(40) as u32 % len.max(1)
    };
    let mut inner = file[at + 4..end].to_vec();
    inner.resize((new as usize).next_multiple_of(4), random.below(256) as u8);
    file.splice(at + 4..end, inner);
    put(file, at, true, new);
}

/// A line of text is doubled, removed, or takes the place of another.
fn lines(file: &mut Vec<u8>, random: &mut Random) {
    let mut all: Vec<Vec<u8>> = file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if all.is_empty() {
        return;
    }
    let (at, other) = (random.below(all.len()), random.below(all.len()));
    let line = all[at].clone();
    match random.below(3) {
        0 => all.insert(other, line),
        1 => drop(all.remove(at)),
        _ => all[other] = line,
    }
    *file = all.concat();
}

/// A word of a text is replaced by another word of it, or by a number that is hard to read, in the old width or its
/// own.
fn token(file: &mut Vec<u8>, random: &mut Random) {
    let starts: Vec<usize> = (0..file.len())
        .filter(|&at| !file[at].is_ascii_whitespace() && (at == 0 || file[at - 1].is_ascii_whitespace()))
        .collect();
    if starts.is_empty() {
        return;
    }
    let end_of = |file: &[u8], start: usize| {
        start + file[start..].iter().position(u8::is_ascii_whitespace).unwrap_or(file.len() - start)
    };
    let (start, other) = (*random.of(&starts), *random.of(&starts));
    let end = end_of(file, start);
    let mut new = match random.below(3) {
        0 => random.of(&TEXTS).to_vec(),
        1 => random.below(300).to_string().into_bytes(),
        _ => file[other..end_of(file, other)].to_vec(),
    };
    if random.below(2) == 0 {
        // to the right, as Fortran has it
        let width = end - start;
        new.truncate(width);
        while new.len() < width {
            new.insert(0, b' ');
        }
    }
    file.splice(start..end, new);
}

/// Changes an input of `decode_hdf5_filters`: sometimes its chunk becomes one that the filters have encoded, with a few
/// bytes changed under a correct checksum. `default` is libFuzzer's own change.
pub fn change_chunk(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    default: impl Fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let size = if seed % 4 == 0 { size } else { default(data, size, max_size) };
    if seed % 4 > 1 {
        return size;
    }
    let input = data[..size].to_vec();
    let mut rest = Input(&input);
    let (filters, mask, element, chunk_bytes) = head(&mut rest);
    if chunk_bytes == 0 || chunk_bytes > 1 << 14 {
        return size;
    }
    let behind = size - rest.0.len();
    let applied: Vec<StoredFilter> =
        filters.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 0).map(|(_, filter)| filter.clone()).collect();
    let (mut stored, mut scratch) = (rest.0.to_vec(), FilterScratch::default());
    if seed % 4 == 0 {
        let raw: Vec<u8> = rest.0.iter().copied().chain([seed as u8]).cycle().take(chunk_bytes).collect();
        let made = Pipeline::new(&applied, element, chunk_bytes);
        if made.and_then(|writing| writing.encode(&raw, &mut stored, &mut scratch)).is_err() {
            return size;
        }
        if seed % 3 > 0 && !stored.is_empty() {
            let (at, bit) = ((seed >> 8) as usize % stored.len(), seed >> 4 & 7);
            stored[at] ^= 1 << bit;
        }
    }
    if applied.last().is_some_and(|last| last.id == 3) && stored.len() > 4 {
        let sum = [StoredFilter { id: 3, values: vec![] }];
        let bytes = stored[..stored.len() - 4].to_vec();
        let summed = Pipeline::new(&sum, 1, bytes.len());
        if summed.and_then(|writing| writing.encode(&bytes, &mut stored, &mut scratch)).is_err() {
            return size;
        }
    }
    let len = stored.len().min(max_size - behind);
    data[behind..behind + len].copy_from_slice(&stored[..len]);
    behind + len
}
