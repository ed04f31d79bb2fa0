//! Several streams at once against libdeflate, one at a time, and rounds against the safe decoder.

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::*;

/// Numbers without a pattern.
struct Noise(u32);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| (self.next() >> 8) as u8).collect()
    }

    /// Coordinates: bytes with codes of very different lengths, hardly a match.
    fn floats(&mut self, n: usize) -> Vec<u8> {
        (0..n).flat_map(|_| (self.next() as f32 / (1 << 24) as f32 * 90.0 - 45.0).to_le_bytes()).collect()
    }

    /// Text of few letters: nearly nothing but matches, near and far, some that overlap.
    fn text(&mut self, n: usize) -> Vec<u8> {
        let words: Vec<Vec<u8>> = (0..30).map(|i| self.bytes(1 + i * i / 9)).collect();
        let mut text = Vec::new();
        while text.len() < n {
            let word = &words[self.next() as usize % words.len()];
            (0..1 + self.next() % 3).for_each(|_| text.extend_from_slice(word));
        }
        text.truncate(n);
        text
    }

    /// Bytes of which each is half as frequent as the one before: words as long as they may be.
    fn skewed(&mut self, n: usize) -> Vec<u8> {
        let mut letter =
            || (self.next().leading_zeros() as u8).wrapping_mul(37) ^ u8::from(self.next().is_multiple_of(7));
        (0..n).map(|_| letter()).collect()
    }
}

/// Bytes of the longer samples.
const MANY: usize = 40_000;

fn samples() -> Vec<Vec<u8>> {
    let mut noise = Noise(5);
    let mut samples = vec![Vec::new(), vec![7], b"ab".to_vec(), vec![0; MANY]];
    for n in [3, 17, 64, 300, MANY / 10 + 1, MANY] {
        samples.extend([noise.bytes(n), noise.floats(n / 4), noise.text(n), noise.skewed(n)]);
    }
    samples.push([noise.floats(MANY / 8), noise.text(MANY / 4), noise.bytes(MANY / 2)].concat());
    samples
}

fn deflated(plain: &[u8], level: i32) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
    let mut stream = vec![0; compressor.zlib_compress_bound(plain.len())];
    let length = compressor.zlib_compress(plain, &mut stream).unwrap();
    stream.truncate(length);
    stream
}

/// What libdeflate makes of a stream: exactly that many bytes or nothing.
fn by_libdeflate(stream: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; bytes];
    (Decompressor::new().zlib_decompress(stream, &mut out) == Ok(bytes)).then_some(out)
}

/// What comes of streams that are inflated in one call.
fn together(inflater: &mut Inflater, streams: &[(&[u8], usize)]) -> Vec<Option<Vec<u8>>> {
    let mut outs: Vec<Vec<u8>> = streams.iter().map(|(_, bytes)| vec![0xa5; *bytes]).collect();
    let jobs = streams.iter().zip(&mut outs);
    let mut jobs: Vec<Job<'_>> = jobs.map(|((stream, _), out)| Job { stream, out, done: true }).collect();
    inflater.inflate(&mut jobs);
    let done: Vec<bool> = jobs.iter().map(|job| job.done).collect();
    outs.into_iter().zip(done).map(|(out, done)| done.then_some(out)).collect()
}

/// The same by the safe decoder alone.
fn by_symbols(stream: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut state = Stream::new();
    let mut out = vec![0; bytes];
    state.begin(stream, bytes).ok()?;
    if state.next_block(stream).ok()? {
        state.decode_rest(stream).ok()?;
    }
    state.finish(stream, &mut out).ok()?;
    Some(out)
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn what_libdeflate_deflates_at_any_level_is_inflated() {
    let mut inflater = Inflater::patient();
    for level in 0..=12 {
        let plain = samples();
        let streams: Vec<Vec<u8>> = plain.iter().map(|plain| deflated(plain, level)).collect();
        let all: Vec<(&[u8], usize)> = streams.iter().map(Vec::as_slice).zip(plain.iter().map(Vec::len)).collect();
        // as many at once as there are, and every smaller number
        for at_once in [plain.len(), 1, 2, 3, 4, 5] {
            let found: Vec<_> = all.chunks(at_once).flat_map(|streams| together(&mut inflater, streams)).collect();
            for ((found, plain), i) in found.iter().zip(&plain).zip(0..) {
                assert!(found.as_ref() == Some(plain), "sample {i}, level {level}, {at_once} at once");
            }
        }
        for ((stream, bytes), plain) in all.iter().zip(&plain) {
            assert!(by_symbols(stream, *bytes).as_ref() == Some(plain), "level {level}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn both_builds_stop_at_the_same_place() {
    let mut noise = Noise(9);
    let plain = [noise.floats(MANY / 4), noise.text(MANY)];
    let streams = plain.each_ref().map(|plain| deflated(plain, 6));
    let inputs = streams.each_ref().map(Vec::as_slice);
    let started = || {
        let mut states = [Stream::new(), Stream::new()];
        for ((state, input), plain) in states.iter_mut().zip(inputs).zip(&plain) {
            state.begin(input, plain.len()).unwrap();
            assert!(state.next_block(input).unwrap());
        }
        states
    };
    let (mut fitting, mut portable) = (started(), started());
    let stopped = rounds::decode(&mut fitting, &inputs);
    let again = rounds::decode_body(&mut portable, &inputs);
    assert_eq!((stopped.ended, stopped.refused), (again.ended, again.refused));
    for ((fitting, portable), plain) in fitting.iter().zip(&portable).zip(&plain) {
        assert!(fitting.written > 0);
        assert_eq!((fitting.at, fitting.written), (portable.at, portable.written));
        let bytes: Vec<u8> = fitting.staged[..fitting.written].iter().map(|entry| (entry >> 8) as u8).collect();
        assert!(plain.starts_with(&bytes));
        assert!(fitting.staged[..fitting.written] == portable.staged[..portable.written]);
    }
}

/// Bits of a hand-made stream, the first one lowest.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    held: usize,
}

impl Bits {
    fn put(&mut self, value: u32, n: usize) -> &mut Self {
        for i in 0..n {
            if self.held.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((value >> i & 1) as u8) << (self.held % 8);
            self.held += 1;
        }
        self
    }

    /// A word of a code: its bits the other way round.
    fn word(&mut self, word: u32, n: usize) -> &mut Self {
        self.put(word.reverse_bits() >> (32 - n), n)
    }

    fn stream(&self, plain: &[u8]) -> Vec<u8> {
        [&[0x78, 0x9c], self.bytes.as_slice(), &stream::checksum(plain).to_be_bytes()].concat()
    }
}

/// A block of fixed codes, the last one: literals, and now and then the three bytes before once more.
fn fixed_block(noise: &mut Noise, n: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut bits, mut plain) = (Bits::default(), Vec::new());
    bits.put(1, 1).put(1, 2);
    while plain.len() < n {
        if plain.len() >= 3 && noise.next().is_multiple_of(40) {
            plain.extend_from_within(plain.len() - 3..);
            bits.word(1, 7).word(2, 5);
        }
        let byte = (noise.next() >> 9) as u8;
        plain.push(byte);
        match u32::from(byte) {
            low @ 0..144 => bits.word(0x30 + low, 8),
            high => bits.word(0x190 + high - 144, 9),
        };
    }
    bits.word(0, 7);
    (bits.stream(&plain), plain)
}

/// The one test that Miri takes, which looks at the unsafe code.
#[test]
fn what_was_deflated_by_hand_is_inflated() {
    let mut noise = Noise(8);
    let mut inflater = Inflater::patient();
    for n in 1..=if cfg!(miri) { 8 } else { 40 } {
        let made: Vec<_> = (0..n).map(|i| fixed_block(&mut noise, 10 + 40 * i)).collect();
        let streams: Vec<(&[u8], usize)> =
            made.iter().map(|(stream, plain)| (stream.as_slice(), plain.len())).collect();
        let found = together(&mut inflater, &streams);
        assert!(found.iter().zip(&made).all(|(found, (_, plain))| found.as_ref() == Some(plain)), "{n} streams");
        let cut: Vec<(&[u8], usize)> =
            streams.iter().map(|(stream, bytes)| (&stream[..stream.len() / 2], *bytes)).collect();
        assert!(together(&mut inflater, &cut).iter().all(Option::is_none));
        let short: Vec<(&[u8], usize)> = streams.iter().map(|(stream, bytes)| (*stream, bytes - 1)).collect();
        assert!(together(&mut inflater, &short).iter().all(Option::is_none));
    }
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn all_kinds_of_blocks_follow_each_other() {
    let mut bits = Bits::default();
    // a stored block of no bytes, one of three
    bits.put(0, 3).put(0, 5).put(0, 16).put(0xffff, 16);
    bits.put(0, 3).put(0, 5).put(3, 16).put(!3 & 0xffff, 16).put(0x63_62_61, 24);
    // fixed codes: "a", six bytes from a distance of four, the end
    bits.put(0, 1).put(1, 2).word(0x30 + u32::from(b'a'), 8).word(4, 7).word(3, 5).word(0, 7);
    // the last one, of fixed codes, is empty
    bits.put(1, 1).put(1, 2).word(0, 7);
    let plain = b"abcaabcaab".as_slice();
    let stream = bits.stream(plain);
    assert_eq!(by_libdeflate(&stream, plain.len()).as_deref(), Some(plain));
    assert_eq!(together(&mut Inflater::patient(), &[(&stream, plain.len())]), [Some(plain.to_vec())]);
    for bytes in [plain.len() - 1, plain.len() + 1] {
        assert_eq!(together(&mut Inflater::patient(), &[(&stream, bytes)]), [None], "room for {bytes} bytes");
    }
    // bytes behind a stream are not part of it
    let longer = [stream.as_slice(), b"more"].concat();
    assert_eq!(together(&mut Inflater::patient(), &[(&longer, plain.len())]), [Some(plain.to_vec())]);
}

/// A block of dynamic codes whose literals have words of one bit (0), two (12), and `long` of fifteen bits from 100 on;
/// the end has three. Behind it the words of literal 0, of the last literal, and of the end.
fn block_of_long_words(long: u32) -> Bits {
    let mut bits = Bits::default();
    bits.put(1, 1).put(2, 2).put(0, 5).put(0, 5).put(15, 4);
    let lengths = [(18, 2), (15, 2), (1, 2), (2, 3), (3, 3)];
    for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15] {
        bits.put(lengths.iter().find(|(of, _)| *of == symbol).map_or(0, |(_, length)| *length), 3);
    }
    // words in the order of length and symbol: 1 -> 00, 15 -> 01, 18 (zeros) -> 10, 2 -> 110, 3 -> 111
    bits.word(0b00, 2).word(0b10, 2).put(0, 7).word(0b110, 3).word(0b10, 2).put(87 - 11, 7);
    for _ in 0..long {
        bits.word(0b01, 2);
    }
    bits.word(0b10, 2).put(156 - long - 11, 7).word(0b111, 3).word(0b00, 2);
    bits.word(0, 1).word(0b111 << 12 | (long - 1), 15).word(0b110, 3);
    bits
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn a_code_that_leaves_words_unused_is_refused() {
    // an eighth of the code is for words of fifteen bits: 4096 of them, of which there are 100
    let stream = block_of_long_words(100).stream(&[0, 199]);
    assert_eq!(by_libdeflate(&stream, 2), None);
    assert_eq!(together(&mut Inflater::patient(), &[(&stream, 2)]), [None]);
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn words_longer_than_the_table_are_understood() {
    // skewed bytes have words of all lengths, and few enough matches
    let plain = Noise(3).skewed(MANY);
    let stream = deflated(&plain, 1);
    let mut state = Stream::new();
    state.begin(&stream, plain.len()).unwrap();
    assert!(state.next_block(&stream).unwrap());
    assert!(state.literals.contains(&0xff00), "no word is longer than the table's");
    assert!(together(&mut Inflater::patient(), &[(&stream, plain.len())]) == [Some(plain)]);
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn a_stream_that_is_cut_anywhere_is_refused() {
    let mut inflater = Inflater::patient();
    let mut noise = Noise(1);
    for plain in [noise.floats(100), noise.text(500), noise.bytes(40)] {
        for level in [0, 1, 9] {
            let stream = deflated(&plain, level);
            let cut: Vec<(&[u8], usize)> = (0..stream.len()).map(|n| (&stream[..n], plain.len())).collect();
            assert!(together(&mut inflater, &cut).iter().all(Option::is_none), "level {level}");
            assert!(cut.iter().all(|(stream, bytes)| by_symbols(stream, *bytes).is_none()), "level {level}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn streams_with_wrong_bits_are_refused_or_are_what_libdeflate_makes_of_them() {
    let mut inflater = Inflater::patient();
    let mut noise = Noise(2);
    for plain in [noise.floats(MANY / 100), noise.text(MANY / 50), noise.skewed(MANY / 50)] {
        for level in [0, 1, 6, 9, 12] {
            let stream = deflated(&plain, level);
            let flipped: Vec<Vec<u8>> = (0..8 * stream.len().min(600))
                .map(|bit| {
                    let mut damaged = stream.clone();
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    damaged
                })
                .collect();
            let jobs: Vec<(&[u8], usize)> = flipped.iter().map(|stream| (stream.as_slice(), plain.len())).collect();
            for (found, (stream, bytes)) in together(&mut inflater, &jobs).into_iter().zip(&jobs) {
                let alone = by_symbols(stream, *bytes);
                assert!(found == alone);
                // a bit of the window's size or the level may be wrong unseen
                assert!(found.is_none() || found == by_libdeflate(stream, *bytes));
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn a_stream_of_matches_is_left_to_libdeflate_and_the_others_are_not() {
    let mut noise = Noise(6);
    let (text, floats) = (noise.text(40_000), noise.floats(10_000));
    let (many, few) = (deflated(&text, 6), deflated(&floats, 1));
    let streams: Vec<(&[u8], usize)> = [(many.as_slice(), text.len()), (&few, floats.len())].repeat(5);
    let found = together(&mut Inflater::new(), &streams);
    assert!(found.chunks(2).all(|pair| pair == [None, Some(floats.clone())]));
    let found = together(&mut Inflater::patient(), &streams);
    assert!(found.chunks(2).all(|pair| pair == [Some(text.clone()), Some(floats.clone())]));
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn after_groups_of_many_matches_fewer_and_fewer_are_tried_until_one_has_few() {
    let mut noise = Noise(7);
    let (text, floats) = (noise.text(40_000), noise.floats(2_000));
    let (many, few) = (deflated(&text, 6), deflated(&floats, 1));
    let mut inflater = Inflater::new();
    let mut pauses = Vec::new();
    for _ in 0..200 {
        assert_eq!(together(&mut inflater, &[(&many, text.len())]), [None]);
        pauses.push(inflater.pause);
    }
    let tried = pauses.windows(2).filter(|pair| pair[1] >= pair[0]).count();
    assert!((3..10).contains(&tried), "{pauses:?}");
    let found: Vec<_> = (0..200).map(|_| together(&mut inflater, &[(&few, floats.len())]).remove(0)).collect();
    let first = found.iter().position(Option::is_some).unwrap();
    assert!(first <= LONGEST_PAUSE as usize);
    assert!(found[first..].iter().all(|found| found.as_ref() == Some(&floats)), "one that goes well ends the pauses");
}

#[test]
#[cfg_attr(miri, ignore = "libdeflate is C")]
fn bytes_without_sense_and_wrong_checksums_are_refused() {
    let mut inflater = Inflater::patient();
    let mut noise = Noise(4);
    for n in [0, 1, 2, 5, 6, 7, 30, 500] {
        for _ in 0..300 {
            let mut stream = noise.bytes(n);
            let head = [0x78, 0x01];
            stream.iter_mut().zip(head).for_each(|(byte, head)| *byte = head);
            let jobs = [(stream.as_slice(), 40), (stream.as_slice(), 0)];
            for (found, (stream, bytes)) in together(&mut inflater, &jobs).into_iter().zip(jobs) {
                assert!(found.is_none() || found == by_libdeflate(stream, bytes));
                assert!(found == by_symbols(stream, bytes));
            }
        }
    }
    let plain = noise.floats(90);
    let sound = deflated(&plain, 6);
    let wrong = |at: usize, by: u8| {
        let mut stream = sound.clone();
        let at = if at < 2 { at } else { stream.len() - 1 };
        stream[at] ^= by;
        stream
    };
    // checksum; method; window; check of the head; dictionary
    for stream in [wrong(2, 1), wrong(0, 1), wrong(0, 0x80), wrong(1, 1), wrong(1, 0x20)] {
        let found = together(&mut inflater, &[(&sound, plain.len()), (&stream, plain.len()), (&sound, plain.len())]);
        assert!(found == [Some(plain.clone()), None, Some(plain.clone())], "a damaged stream among sound ones");
    }
}
