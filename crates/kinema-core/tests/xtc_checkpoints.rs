//! Atom checkpoints of XTC: the same bits as from the start of the frame, and never other numbers, whatever is damaged.

use std::path::Path;
use std::sync::Arc;

use crate::common::Random;
use crate::xtc::SMALL_FILES;
use kinema_core::format::xtc::Xtc;
use kinema_core::format::{Decoded, Decoder, Format, Request, ScanOptions, Scratch, SegmentBytes, Wanted};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::index::{AtomCheckpoints, Index};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{Gather, MemorySource, Source};
use kinema_core::{Error, ErrorKind, Result};

fn file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/xtc/{name}.xtc"));
    std::fs::read(path).expect("test data")
}

struct Opened {
    source: MemorySource,
    decoder: Arc<dyn Decoder>,
    plain: Index,
}

impl Opened {
    fn new(bytes: &[u8]) -> Self {
        let source = MemorySource::new("test.xtc", bytes.to_vec());
        let decoder = Xtc.open(&source).expect("a sound header");
        let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
        let plain = decoder.scan(&source, &options).expect("sound headers").index;
        Self { source, decoder, plain }
    }

    fn n_atoms(&self) -> u32 {
        self.decoder.header().n_atoms
    }

    /// Checkpoints of every frame, as words and tags.
    fn found(&self, every: u32) -> (Vec<u64>, Vec<u32>) {
        let (mut words, mut tags) = (Vec::new(), Vec::new());
        for frame in 0..self.plain.n_frames() {
            let extent = self.plain.extent(frame);
            let mut bytes = vec![0; extent.len as usize];
            self.source.read_exact_at(extent.offset, &mut bytes).expect("in memory");
            let mut of_frame = vec![u64::MAX; AtomCheckpoints::count_per_frame(self.n_atoms(), every)];
            tags.push(self.decoder.atom_checkpoints(&bytes, every, &mut of_frame).expect("XTC has them"));
            words.extend(of_frame);
        }
        (words, tags)
    }

    fn with(&self, every: u32, words: Vec<u64>, tags: Vec<u32>) -> Index {
        let Index::Table(mut table) = self.plain.clone() else { panic!("XTC has a table") };
        table.atom_checkpoints =
            Some(Arc::new(AtomCheckpoints::new(self.n_atoms(), every, words, tags).expect("of every frame")));
        Index::Table(table)
    }

    fn checkpointed(&self, every: u32) -> Index {
        let (words, tags) = self.found(every);
        self.with(every, words, tags)
    }

    /// Bits of positions, cells and times of some frames; how many segments there were, and their bytes.
    fn read(&self, index: &Index, frames: &[u64], atoms: &[u32]) -> Result<(Vec<u32>, usize, u64)> {
        let atoms = AtomSelection::from_sorted(atoms.to_vec(), self.n_atoms())?;
        let request = Request { fields: Fields::POSITIONS, atoms, scales: Scales::NATIVE };
        let wanted: Vec<Wanted> =
            frames.iter().enumerate().map(|(row, &frame)| Wanted { frame, row: row as u32 }).collect();
        let mut segments = Vec::new();
        self.decoder.segments(index, &wanted, &request, &mut segments)?;
        let mut block = Block::default();
        block.reset(frames.iter().copied(), request.atoms.len(), request.fields);
        block.positions.fill(f32::NAN);
        let mut gather = Gather::default();
        gather.read(&self.source, segments.iter().map(|segment| segment.extent))?;
        let mut scratch = Scratch::default();
        for (i, segment) in segments.iter().enumerate() {
            let mut bytes = gather.bytes(i).to_vec();
            while let Decoded::NeedsPrefix(len) = self.decoder.decode(
                SegmentBytes { segment, bytes: &bytes, wanted: &wanted, request: &request },
                &mut block.as_mut(),
                &mut scratch,
            )? {
                assert!(len > bytes.len() as u64 && len <= segment.whole.len, "a longer prefix is asked for");
                bytes.resize(len as usize, 0);
                self.source.read_exact_at(segment.whole.offset, &mut bytes)?;
            }
        }
        let mut bits: Vec<u32> = block.positions.iter().map(|value| value.to_bits()).collect();
        bits.extend(format!("{:?}", block.stamps).bytes().map(u32::from));
        Ok((bits, segments.len(), segments.iter().map(|segment| segment.extent.len).sum()))
    }
}

/// Ascending atoms: a few, a run, several runs, or many.
fn selection(random: &mut Random, n_atoms: u32) -> Vec<u32> {
    let n = u64::from(n_atoms);
    let mut atoms: Vec<u32> = match random.below(4) {
        0 => (0..=random.below(5)).map(|_| random.below(n) as u32).collect(),
        1 => {
            let first = random.below(n);
            (first..(first + 1 + random.below(40)).min(n)).map(|atom| atom as u32).collect()
        }
        2 => (0..1 + random.below(4))
            .flat_map(|_| {
                let first = random.below(n);
                first..(first + 1 + random.below(12)).min(n)
            })
            .map(|atom| atom as u32)
            .collect(),
        _ => (0..n_atoms).filter(|_| random.below(3) == 0).collect(),
    };
    atoms.sort_unstable();
    atoms.dedup();
    if atoms.is_empty() { vec![n_atoms - 1] } else { atoms }
}

#[test]
fn selections_have_the_bits_of_the_plain_path() {
    let mut random = Random(11);
    let (mut frames_compared, mut in_runs) = (0, 0);
    for name in SMALL_FILES {
        let opened = Opened::new(&file(name));
        let n_frames = opened.plain.n_frames();
        let frames: Vec<u64> = (0..n_frames).collect();
        for every in [1, 7, 16, 64, 100, 1000] {
            let index = opened.checkpointed(every);
            for _ in 0..60 {
                let atoms = selection(&mut random, opened.n_atoms());
                let (plain, ..) = opened.read(&opened.plain, &frames, &atoms).expect("sound");
                let (fast, segments, _) = opened.read(&index, &frames, &atoms).expect("sound");
                assert!(plain == fast, "{name}, checkpoints every {every}, atoms {atoms:?}");
                frames_compared += n_frames;
                in_runs += u64::from(segments as u64 > n_frames);
            }
        }
    }
    assert!(frames_compared > 5000 && in_runs > 1000, "{frames_compared} frames, {in_runs} with checkpoints");
}

#[test]
fn every_group_border_is_found() {
    // a checkpoint at every atom: each atom alone is read from its own group
    for name in ["water", "mixed", "mixed_2023", "separate", "wide_small"] {
        let opened = Opened::new(&file(name));
        let (words, tags) = opened.found(1);
        assert!(words.iter().all(|&word| word != 0), "{name}");
        let index = opened.with(1, words, tags);
        for atom in 0..opened.n_atoms() {
            let plain = opened.read(&opened.plain, &[0], &[atom]).expect("sound").0;
            assert_eq!(opened.read(&index, &[0], &[atom]).expect("sound").0, plain, "{name}, atom {atom}");
        }
    }
}

#[test]
fn atoms_at_the_end_are_read_without_those_before() {
    let opened = Opened::new(&file("mixed"));
    let index = opened.checkpointed(64);
    let last = opened.n_atoms() - 1;
    let (_, segments, bytes) = opened.read(&index, &[0], &[last]).expect("sound");
    assert_eq!(segments, 2, "header and run");
    assert!(bytes * 3 < opened.plain.extent(0).len, "{bytes} bytes");
    // nor is anything gained if all atoms, or the first ones, are wanted
    for atoms in [vec![0, 5], (0..=last).collect()] {
        assert_eq!(opened.read(&index, &[0], &atoms).expect("sound").1, 1);
    }
}

/// The error that says what to do, or one of the format: never another kind.
fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt
}

#[test]
fn damaged_checkpoints_give_the_same_numbers_or_an_error() {
    let mut random = Random(5);
    let mut refused = 0;
    for name in ["mixed", "water", "wide", "separate", "mixed_2023"] {
        let opened = Opened::new(&file(name));
        let (words, tags) = opened.found(32);
        let per_frame = words.len() / tags.len();
        for round in 0..400 {
            let frame = random.below(tags.len() as u64);
            let (mut words, mut tags) = (words.clone(), tags.clone());
            let at = frame as usize * per_frame + random.below(per_frame as u64) as usize;
            match round % 4 {
                0 => words[at] ^= 1 << random.below(64),
                1 => words[at] = random.next(),
                // of another frame or atom
                2 => words[at] = words[random.below(words.len() as u64) as usize],
                _ => tags[frame as usize] ^= 1 << random.below(31),
            }
            let index = opened.with(32, words, tags);
            let atoms = selection(&mut random, opened.n_atoms());
            let (plain, ..) = opened.read(&opened.plain, &[frame], &atoms).expect("sound");
            match opened.read(&index, &[frame], &atoms) {
                Ok((found, ..)) => assert!(found == plain, "{name}, round {round}: other numbers"),
                Err(error) => {
                    assert!(is_refusal(&error), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 300, "{refused} refused");
}

/// A rewritten middle with restored size and times, for checkpoints that are used all the same.
#[test]
fn a_rewritten_frame_is_an_error_or_has_the_numbers_of_one_of_both_files() {
    let mut random = Random(9);
    let mut refused = 0;
    for name in ["mixed", "water", "wide_small"] {
        let whole = file(name);
        let opened = Opened::new(&whole);
        let (words, tags) = opened.found(32);
        let extent = opened.plain.extent(1);
        for round in 0..600 {
            let mut changed = whole.clone();
            let frame = &mut changed[extent.offset as usize..extent.end() as usize];
            let body = frame.len() - 92;
            match round % 3 {
                // its bits are moved by one, as where one atom took another number of bits
                0 => frame[92..].rotate_right(1 + random.below(3) as usize),
                1 => frame[92 + random.below(body as u64) as usize] ^= 1 << random.below(8),
                // words of the header: precision, range, width
                _ => frame[60 + random.below(28) as usize] ^= 1 << random.below(8),
            }
            let other = Opened { source: MemorySource::new("test.xtc", changed), ..Opened::new(&whole) };
            let index = other.with(32, words.clone(), tags.clone());
            let atoms = selection(&mut random, opened.n_atoms());
            if atoms.last().is_some_and(|&last| last < 32) {
                continue;
            }
            match other.read(&index, &[1], &atoms) {
                Ok((found, ..)) => {
                    for (i, &atom) in atoms.iter().enumerate() {
                        // alone: other atoms may follow the part that cannot be decoded
                        let of =
                            |file: &Opened| file.read(&file.plain, &[1], &[atom]).map(|(bits, ..)| bits[..3].to_vec());
                        let found = &found[3 * i..3 * i + 3];
                        let known = [of(&opened), of(&other)].iter().flatten().any(|bits| bits == found);
                        assert!(known, "{name}, round {round}, atom {atom} of {atoms:?}");
                    }
                }
                Err(error) => {
                    assert!(is_refusal(&error), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 600, "{refused} refused");
}
