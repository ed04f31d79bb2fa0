//! The laws that every kernel keeps, as one check for tests of this and of other crates.
//!
//! It knows no expected value: whether results are right is each kernel's own test.

use std::mem::discriminant;
use std::ops::Range;

use kinema_core::frame::BlockView;
use kinema_core::reduce::{AnyKernel, AnyPartial, BoundKernel, Number, ResultArray, Values, Workspace};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result, with_numbers};

/// Most rows for which every way of splitting a leaf into blocks is tried; for more, only every single split.
const ALL_CUTS: usize = 8;

fn broken(id: &str, law: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("{id} breaks a law: {law}"))
}

/// Checks the laws of `kernel` on a block of `atoms` with at least two rows.
///
/// `empty` is neutral on both sides of `merge`. A leaf split into blocks gives the same bits as a single block. Bytes
/// make the round trip, and are refused when truncated, too long or of another kernel. Blocks of one row and of none
/// are accepted. `finish` without frames is an error. Sums of an exact kernel merge in any order. Rows in a buffer
/// for all frames equal the rows of separate partials.
///
/// # Errors
/// `Internal`, naming the broken law; and any error of the kernel.
pub fn check(kernel: &dyn AnyKernel, block: &BlockView<'_>, atoms: &AtomSelection) -> Result<()> {
    let gather = |parts: &[Range<usize>]| -> Result<AnyPartial> {
        let (mut bound, workspace) = (BoundKernel::new(kernel, atoms)?, Workspace::default());
        let mut partial = kernel.empty();
        for range in parts {
            bound.accumulate(&mut partial, &block.rows_in(range.clone()), &workspace)?;
        }
        Ok(partial)
    };
    let one = |range: Range<usize>| gather(std::slice::from_ref(&range));
    let rows = block.rows();
    let whole = kernel.to_bytes(&one(0..rows)?)?;
    let law = |holds: bool, law: &str| if holds { Ok(()) } else { Err(broken(kernel.id(), law)) };

    for parts in splits(rows) {
        law(kernel.to_bytes(&gather(&parts)?)? == whole, "a leaf in several blocks gives the same bits as in one")?;
    }
    law(kernel.to_bytes(&gather(&[0..0, 0..rows, rows..rows])?)? == whole, "a block of no rows adds nothing")?;

    let mut left = kernel.empty();
    kernel.merge(&mut left, one(0..rows)?)?;
    law(kernel.to_bytes(&left)? == whole, "the empty partial is neutral on the left")?;
    kernel.merge(&mut left, kernel.empty())?;
    law(kernel.to_bytes(&left)? == whole, "the empty partial is neutral on the right")?;

    for range in [0..0, 0..1.min(rows), 0..rows] {
        let bytes = kernel.to_bytes(&one(range)?)?;
        law(kernel.to_bytes(&kernel.from_bytes(&bytes)?)? == bytes, "bytes make the round trip")?;
    }
    // A partial that was serialized accumulates and merges like one that was not.
    let middle = rows / 2;
    let mut merged = one(0..middle)?;
    kernel.merge(&mut merged, one(middle..rows)?)?;
    let mut travelled = kernel.from_bytes(&kernel.to_bytes(&one(0..middle)?)?)?;
    kernel.merge(&mut travelled, kernel.from_bytes(&kernel.to_bytes(&one(middle..rows)?)?)?)?;
    law(kernel.to_bytes(&merged)? == kernel.to_bytes(&travelled)?, "merging bytes' partials gives the same bits")?;
    if kernel.is_exact() {
        let (mut first, mut second) = (one(0..middle)?, one(middle..rows)?);
        let mut sum = kernel.take_sum(&mut second)?;
        kernel.merge(&mut sum, kernel.take_sum(&mut first)?)?;
        kernel.merge(&mut first, second)?;
        kernel.merge(&mut first, sum)?;
        law(
            kernel.to_bytes(&first)? == whole,
            "sums of an exact kernel merge in any order, the rest in that of frames",
        )?;
    }
    check_row_buffer(kernel, block, atoms)?;
    let results = kernel.finish(travelled)?;
    law(are_same(&kernel.finish(merged)?, &results), "the same partial gives the same results")?;
    let shaped = results.iter().all(|array| array.shape.iter().product::<usize>() == array.values.len());
    law(shaped, "results have as many values as their shape says")?;
    let names: std::collections::BTreeSet<_> = results.iter().map(|array| array.name).collect();
    law(names.len() == results.len(), "results have names of their own")?;

    let refused = kernel.finish(kernel.empty()).err().map(|error| error.kind());
    law(refused == Some(ErrorKind::InvalidArgument), "nothing gathered is an invalid argument of finish")?;
    check_corrupt(kernel, &whole)
}

/// Checks a kernel that has a buffer for all frames: halves in their places, a place that is requested twice, and one
/// that is too small.
fn check_row_buffer(kernel: &dyn AnyKernel, block: &BlockView<'_>, atoms: &AtomSelection) -> Result<()> {
    let (rows, middle) = (block.rows(), block.rows() / 2);
    let Some(buffer) = kernel.row_buffer(rows) else { return Ok(()) };
    let gather = |mut partial: AnyPartial, range: Range<usize>| -> Result<AnyPartial> {
        let mut bound = BoundKernel::new(kernel, atoms)?;
        bound.accumulate(&mut partial, &block.rows_in(range), &Workspace::default())?;
        Ok(partial)
    };
    let apart = |range: Range<usize>| gather(kernel.empty(), range);
    let placed = |range: Range<usize>| gather(kernel.empty_in(&buffer, range.clone()), range);
    let is_same = |partial: &AnyPartial, other: AnyPartial| -> Result<bool> {
        Ok(kernel.to_bytes(partial)? == kernel.to_bytes(&other)?)
    };
    let law = |holds: bool, law: &str| if holds { Ok(()) } else { Err(broken(kernel.id(), law)) };
    let late = placed(middle..rows)?;
    let mut whole = placed(0..middle)?;
    law(is_same(&placed(0..middle)?, apart(0..middle)?)?, "a place that is taken gives the same bits")?;
    kernel.merge(&mut whole, late)?;
    law(is_same(&whole, apart(0..rows)?)?, "rows in their places are those of the leaf")?;
    let other = kernel.row_buffer(rows).unwrap_or_else(|| buffer.clone());
    let beyond = gather(kernel.empty_in(&other, rows - 1..rows), 0..rows)?;
    law(is_same(&beyond, apart(0..rows)?)?, "more frames than there is a place for give the same bits")?;
    drop(buffer);
    law(are_same(&kernel.finish(whole)?, &kernel.finish(apart(0..rows)?)?), "the whole buffer is the result")
}

/// Whether names, shapes and the bits of all numbers are the same; NaNs are compared by their bits.
fn are_same(left: &[ResultArray], right: &[ResultArray]) -> bool {
    let bits = |values: &Values| {
        let mut bytes = Vec::new();
        with_numbers!(values, numbers => numbers.iter().for_each(|number| number.append_to(&mut bytes)));
        (discriminant(values), bytes)
    };
    let same =
        |a: &ResultArray, b: &ResultArray| a.name == b.name && a.shape == b.shape && bits(&a.values) == bits(&b.values);
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same(a, b))
}

/// Every ordered way to split `rows` rows, or every single split if there are many rows.
fn splits(rows: usize) -> Vec<Vec<Range<usize>>> {
    let by_points = |points: &[usize]| -> Vec<Range<usize>> {
        let ends = points.iter().copied().chain([rows]);
        let starts = [0].into_iter().chain(points.iter().copied());
        starts.zip(ends).map(|(start, end)| start..end).collect()
    };
    if rows > ALL_CUTS {
        let single = (1..rows).map(|at| by_points(&[at]));
        return single.chain([by_points(&(1..rows).collect::<Vec<_>>())]).collect();
    }
    let patterns = 0..1_u32 << rows.saturating_sub(1);
    patterns
        .map(|pattern| by_points(&(1..rows).filter(|at| pattern >> (at - 1) & 1 == 1).collect::<Vec<_>>()))
        .collect()
}

fn check_corrupt(kernel: &dyn AnyKernel, whole: &[u8]) -> Result<()> {
    let refuses = |bytes: &[u8]| kernel.from_bytes(bytes).err().is_some_and(|error| error.kind() == ErrorKind::Corrupt);
    let mut bad: Vec<Vec<u8>> = (0..whole.len().min(200)).map(|end| whole[..end].to_vec()).collect();
    bad.push(whole[..whole.len().saturating_sub(1)].to_vec());
    bad.push([whole, &[0]].concat());
    // Name, version and width are at the beginning: none of them may be trusted.
    let name = 1 + kernel.id().len();
    for at in (0..name).chain((name..name + 8).filter(|at| *at < whole.len())) {
        let mut changed = whole.to_vec();
        changed[at] ^= 0x81;
        bad.push(changed);
    }
    match bad.iter().position(|bytes| !refuses(bytes)) {
        Some(i) => Err(broken(kernel.id(), &format!("corrupt bytes are refused as such (case {i})"))),
        None => Ok(()),
    }
}
