//! One zlib stream: its head, the heads of its blocks, and its symbols one by one.
//!
//! It is complete and safe; `rounds` does the bulk of the literals of several streams at once, and is tested against it.
//! Sources: RFC 1950, RFC 1951.

use super::Refused;
use super::code::Code;

/// Bits that are looked up at once for a literal or length.
pub(super) const PRIMARY: usize = 10;
/// The same for a distance, and for the length of a code word.
const DISTANCE: usize = 8;
const PRECODE: usize = 7;

/// What the bits of a literal are looked up as: the byte above, this flag, and the length of the word.
///
/// An entry without it takes no bits, so that looking up again gives it again; above is the symbol's number beyond
/// [`END`], or [`LONG`].
pub(super) const LITERAL: u16 = 0x80;
/// Above, where the word has more than [`PRIMARY`] bits.
const LONG: u16 = 0xff;
/// The symbol that ends a block.
const END: usize = 256;

/// Symbols of literals and lengths, and of distances.
const MOST_LITERALS: usize = 286;
const MOST_DISTANCES: usize = 30;
/// Most repetitions of the length of a code word.
const MOST_REPEATS: usize = 138;
/// Lengths that are written at once, needed or not.
const AT_ONCE: usize = 8;
/// In place of the length of a word: the one before.
const BEFORE: u32 = 16;

/// Shortest match and number of extra bits of the symbols from 257 on (RFC 1951, 3.2.5).
const LENGTHS: [(u16, u8); 29] = {
    let mut lengths = [(0, 0); 29];
    let (mut i, mut next) = (0, 3);
    while i < 28 {
        let bits = if i < 8 { 0 } else { (i / 4 - 1) as u8 };
        lengths[i] = (next, bits);
        next += 1 << bits;
        i += 1;
    }
    lengths[28] = (258, 0);
    lengths
};

/// Shortest distance and number of extra bits of the symbols (the same).
const DISTANCES: [(u16, u8); MOST_DISTANCES] = {
    let mut distances = [(0, 0); MOST_DISTANCES];
    let (mut i, mut next) = (0, 1_u32);
    while i < MOST_DISTANCES {
        let bits = if i < 4 { 0 } else { (i / 2 - 1) as u8 };
        distances[i] = (next as u16, bits);
        next += 1 << bits;
        i += 1;
    }
    distances
};

/// The order in which the lengths of the words of the code of lengths are stored (RFC 1951, 3.2.7).
const PRECODE_ORDER: [u8; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// What follows in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Symbols of a block.
    Symbols,
    /// The head of a block, or the end of the stream.
    Block,
}

/// How far a stream is decoded, the codes of its block, and what came out. Kept from stream to stream.
#[repr(align(64))]
pub(super) struct Stream {
    /// Entries of literals and lengths, as [`LITERAL`] says.
    pub(super) literals: [u16; 1 << PRIMARY],
    /// Shortest distance, extra bits from bit 16 on, length of the word from bit 24 on; 0 for what is no entry.
    distances: [u32; 1 << DISTANCE],
    literal_code: Code,
    distance_code: Code,
    /// Lengths of the words of all symbols.
    lengths: [u8; MOST_LITERALS + MOST_DISTANCES + MOST_REPEATS + AT_ONCE],
    /// Position in the stream, in bits.
    pub(super) at: usize,
    /// What was decoded, as entries of literals: the byte is the upper one.
    pub(super) staged: Vec<u16>,
    /// How many of `staged` there are.
    pub(super) written: usize,
    /// Whether this block is the last one.
    last: bool,
    /// Symbols that the rounds were left for: matches nearly all.
    pub(super) matches: usize,
    /// Whether the rounds go on however many there are.
    pub(super) patient: bool,
}

impl Stream {
    pub(super) fn new() -> Self {
        Self {
            literals: [0; 1 << PRIMARY],
            distances: [0; 1 << DISTANCE],
            literal_code: Code::new(),
            distance_code: Code::new(),
            lengths: [0; _],
            at: 0,
            staged: Vec::new(),
            written: 0,
            last: false,
            matches: 0,
            patient: false,
        }
    }

    /// Begins a stream from which `bytes` bytes are to come.
    pub(super) fn begin(&mut self, input: &[u8], bytes: usize) -> Result<(), Refused> {
        let [method, flags, ..] = *input else { return Err(Refused) };
        // deflate with a window of at most 32 KiB, and no dictionary
        let known = method & 0x0f == 8 && method >> 4 <= 7 && flags & 0x20 == 0;
        if !known || !u16::from_be_bytes([method, flags]).is_multiple_of(31) {
            return Err(Refused);
        }
        if self.staged.len() < bytes {
            self.staged.try_reserve_exact(bytes - self.staged.len()).map_err(|_| Refused)?;
        }
        self.staged.resize(bytes, 0);
        (self.at, self.written, self.last, self.matches) = (16, 0, false, 0);
        Ok(())
    }

    /// The decoded bytes into `out`, once the stream has ended.
    ///
    /// # Errors
    /// Another number of bytes than there is room for, or another checksum.
    pub(super) fn finish(&self, input: &[u8], out: &mut [u8]) -> Result<(), Refused> {
        let staged = self.staged.get(..self.written).filter(|staged| staged.len() == out.len()).ok_or(Refused)?;
        out.iter_mut().zip(staged).for_each(|(byte, entry)| *byte = (*entry >> 8) as u8);
        let stated = input.get(self.at.div_ceil(8)..).and_then(|rest| rest.first_chunk::<4>()).ok_or(Refused)?;
        if u32::from_be_bytes(*stated) == checksum(out) { Ok(()) } else { Err(Refused) }
    }

    /// The next bits, 57 at least, the first one lowest; zeros beyond the end.
    #[inline(always)]
    fn peek(&self, input: &[u8]) -> u64 {
        let rest = input.get(self.at >> 3..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        word >> (self.at & 7)
    }

    #[inline(always)]
    fn skip(&mut self, input: &[u8], bits: u32) -> Result<(), Refused> {
        self.at += bits as usize;
        if self.at > 8 * input.len() { Err(Refused) } else { Ok(()) }
    }

    fn take(&mut self, input: &[u8], bits: u32) -> Result<usize, Refused> {
        let value = self.peek(input) & ((1 << bits) - 1);
        self.skip(input, bits)?;
        Ok(value as usize)
    }

    #[inline(always)]
    fn push(&mut self, byte: u16) -> Result<(), Refused> {
        *self.staged.get_mut(self.written).ok_or(Refused)? = byte << 8 | LITERAL;
        self.written += 1;
        Ok(())
    }

    /// Reads the heads of blocks, and stored blocks whole, up to where symbols begin; whether they do.
    pub(super) fn next_block(&mut self, input: &[u8]) -> Result<bool, Refused> {
        while !self.last {
            self.last = self.take(input, 1)? == 1;
            match self.take(input, 2)? {
                0 => self.stored_block(input)?,
                1 => return self.fixed_codes().map(|()| true),
                2 => return self.dynamic_codes(input).map(|()| true),
                _ => return Err(Refused),
            }
        }
        Ok(false)
    }

    fn stored_block(&mut self, input: &[u8]) -> Result<(), Refused> {
        let at = self.at.div_ceil(8);
        let ([a, b, c, d], rest) = input.get(at..).and_then(|rest| rest.split_first_chunk()).ok_or(Refused)?;
        let length = u16::from_le_bytes([*a, *b]);
        if length != !u16::from_le_bytes([*c, *d]) {
            return Err(Refused);
        }
        let bytes = rest.get(..usize::from(length)).ok_or(Refused)?;
        let places = self.staged.get_mut(self.written..).and_then(|rest| rest.get_mut(..bytes.len())).ok_or(Refused)?;
        places.iter_mut().zip(bytes).for_each(|(place, byte)| *place = u16::from(*byte) << 8 | LITERAL);
        self.written += bytes.len();
        self.at = 8 * (at + 4 + bytes.len());
        Ok(())
    }

    /// RFC 1951, 3.2.6.
    fn fixed_codes(&mut self) -> Result<(), Refused> {
        let (literals, distances) = ([(144, 8), (112, 9), (24, 7), (8, 8)], [(32, 5)]);
        let lengths = literals.into_iter().chain(distances).flat_map(|(n, length)| std::iter::repeat_n(length, n));
        self.lengths.iter_mut().zip(lengths).for_each(|(place, length)| *place = length);
        self.set_codes(288, 32)
    }

    /// RFC 1951, 3.2.7.
    fn dynamic_codes(&mut self, input: &[u8]) -> Result<(), Refused> {
        let literals = 257 + self.take(input, 5)?;
        let distances = 1 + self.take(input, 5)?;
        let words = 4 + self.take(input, 4)?;
        if literals > MOST_LITERALS || distances > MOST_DISTANCES {
            return Err(Refused);
        }
        let mut lengths = [0; PRECODE_ORDER.len()];
        let bits = u128::from(self.peek(input));
        // 57 bits are all of them
        for (i, &symbol) in PRECODE_ORDER.iter().take(words).enumerate() {
            lengths[usize::from(symbol)] = (bits >> (3 * i) & 7) as u8;
        }
        self.skip(input, 3 * words as u32)?;
        let mut precode = [0; 1 << PRECODE];
        self.distance_code.set(&lengths, &mut precode, 0, |symbol, length| {
            let length = length as u32;
            let (value, least, extra) = match symbol {
                16 => (BEFORE, 3, 2),
                17 => (0, 3, 3),
                18 => (0, 11, 7),
                value => (u32::from(value), 1, 0),
            };
            (length + extra) | length << 8 | extra << 12 | least << 16 | value << 24
        })?;
        self.read_lengths(input, &precode, literals + distances)?;
        if self.lengths[END] == 0 {
            return Err(Refused);
        }
        self.set_codes(literals, distances)
    }

    /// Reads the lengths of `total` code words.
    ///
    /// Entries of `precode`: number of bits; from bit 8 on of the word, from 12 of the rest; from 16 on least
    /// number of repetitions; from 24 on the length that is repeated.
    fn read_lengths(&mut self, input: &[u8], precode: &[u32; 1 << PRECODE], total: usize) -> Result<(), Refused> {
        let (mut count, mut before) = (0, BEFORE);
        while count < total {
            let mut bits = self.peek(input);
            let mut taken = 0;
            // four times 14 bits at most
            for _ in 0..4 {
                let entry = precode[(bits & ((1 << PRECODE) - 1)) as usize];
                let extra = bits >> (entry >> 8 & 15) & ((1 << (entry >> 12 & 15)) - 1);
                let repeats = (entry >> 16 & 0xff) as usize + extra as usize;
                before = if entry >> 24 == BEFORE { before } else { entry >> 24 };
                // the first one has none before it; zero is no word
                if before == BEFORE || entry == 0 {
                    return Err(Refused);
                }
                let places = self.lengths.get_mut(count..).ok_or(Refused)?;
                *places.first_chunk_mut::<AT_ONCE>().ok_or(Refused)? = [before as u8; AT_ONCE];
                if repeats > AT_ONCE {
                    places.get_mut(..repeats).ok_or(Refused)?.fill(before as u8);
                }
                count += repeats;
                bits >>= entry & 15;
                taken += entry & 15;
                if count >= total {
                    break;
                }
            }
            self.skip(input, taken)?;
        }
        if count == total { Ok(()) } else { Err(Refused) }
    }

    /// Takes the codes of which `lengths` has the lengths of the words.
    fn set_codes(&mut self, literals: usize, distances: usize) -> Result<(), Refused> {
        let (literals, rest) = self.lengths.split_at_checked(literals).ok_or(Refused)?;
        let distances = rest.get(..distances).ok_or(Refused)?;
        self.literal_code.set(literals, &mut self.literals, LONG << 8, |symbol, length| match symbol {
            0..=255 => symbol << 8 | LITERAL | length as u16,
            _ => (symbol - END as u16) << 8,
        })?;
        self.distance_code.set(distances, &mut self.distances, 0, |symbol, length| {
            DISTANCES
                .get(usize::from(symbol))
                .map_or(0, |(least, extra)| u32::from(*least) | u32::from(*extra) << 16 | (length as u32) << 24)
        })
    }

    /// Decodes one symbol.
    #[inline(always)]
    pub(super) fn symbol(&mut self, input: &[u8]) -> Result<Next, Refused> {
        let bits = self.peek(input);
        let entry = self.literals[(bits & ((1 << PRIMARY) - 1)) as usize];
        if entry & LITERAL != 0 {
            self.skip(input, u32::from(entry & 15))?;
            self.push(entry >> 8)?;
            return Ok(Next::Symbols);
        }
        let (symbol, length) = match entry >> 8 {
            LONG => self.literal_code.find(bits)?,
            above => {
                let symbol = END + usize::from(above);
                (symbol, u32::from(*self.lengths.get(symbol).ok_or(Refused)?))
            }
        };
        if symbol <= END {
            self.skip(input, length)?;
            if symbol == END {
                return Ok(Next::Block);
            }
            self.push(symbol as u16)?;
            return Ok(Next::Symbols);
        }
        let (least, extra) = *LENGTHS.get(symbol - END - 1).ok_or(Refused)?;
        let repeats = usize::from(least) + (bits >> length & ((1 << extra) - 1)) as usize;
        let taken = length + u32::from(extra);
        let bits = bits >> taken;
        let mut entry = self.distances[(bits & ((1 << DISTANCE) - 1)) as usize];
        if entry == 0 {
            let (symbol, length) = self.distance_code.find(bits)?;
            let (least, extra) = *DISTANCES.get(symbol).ok_or(Refused)?;
            entry = u32::from(least) | u32::from(extra) << 16 | length << 24;
        }
        let (length, extra) = (entry >> 24, entry >> 16 & 15);
        let distance = (entry & 0xffff) as usize + (bits >> length & ((1 << extra) - 1)) as usize;
        self.skip(input, taken + length + extra)?;
        self.repeat(distance, repeats)?;
        Ok(Next::Symbols)
    }

    /// Repeats what stands `distance` bytes before.
    #[inline(always)]
    fn repeat(&mut self, distance: usize, count: usize) -> Result<(), Refused> {
        /// Entries that are copied at once: most matches in numbers are as short as they can be.
        const SHORT: usize = 4;
        let from = self.written.checked_sub(distance).ok_or(Refused)?;
        if count > self.staged.len() - self.written {
            return Err(Refused);
        }
        let places = self.staged.get_mut(from..).ok_or(Refused)?;
        if let (true, true, Some((first, later))) =
            (count <= SHORT, distance >= SHORT, places.split_first_chunk_mut::<SHORT>())
            && let Some(to) = later.get_mut(distance - SHORT..).and_then(|later| later.first_chunk_mut::<SHORT>())
        {
            *to = *first;
        } else if distance >= count {
            places.copy_within(..count, distance);
        } else {
            for i in 0..count {
                places[i + distance] = places[i];
            }
        }
        self.written += count;
        Ok(())
    }

    /// Decodes from a symbol on to the end of the stream.
    pub(super) fn decode_rest(&mut self, input: &[u8]) -> Result<(), Refused> {
        loop {
            while self.symbol(input)? == Next::Symbols {}
            if !self.next_block(input)? {
                return Ok(());
            }
        }
    }
}

/// RFC 1950, 8.2.
#[cfg(not(miri))]
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    libdeflater::adler32(bytes)
}

/// The same for Miri, which calls no C.
#[cfg(miri)]
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}
