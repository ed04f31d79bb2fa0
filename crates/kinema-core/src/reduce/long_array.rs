//! Room for long arrays of results, in large pages where the system has them.
//!
//! It changes no value: a system takes memory page by page when it is first written, which costs more than the copy itself.

/// An array from here on is long, in bytes: some large pages of 2 MiB.
const LONG: usize = 8 << 20;

/// Reserves room for `more` values, as `Vec::reserve_exact`.
pub fn reserve_long<T>(values: &mut Vec<T>, more: usize) {
    values.reserve_exact(more);
    #[cfg(target_os = "linux")]
    advise(values.spare_capacity_mut());
}

/// Has the room taken in large pages; whether the system does so changes nothing but speed.
#[cfg(target_os = "linux")]
fn advise<T>(room: &mut [std::mem::MaybeUninit<T>]) {
    const PAGE: usize = 4096;
    let bytes = std::mem::size_of_val(room);
    if bytes < LONG {
        return;
    }
    let start = room.as_mut_ptr() as usize;
    let (first, end) = (start.next_multiple_of(PAGE), (start + bytes) / PAGE * PAGE);
    // SAFETY: the pages lie within memory that the vector owns, and the advice changes neither their content nor their rights.
    unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_and_values_stay() {
        for more in [0, 3, LONG / 8 + 12_345] {
            let mut values = vec![1.5_f64, 2.5];
            reserve_long(&mut values, more);
            assert!(values.capacity() >= 2 + more);
            values.extend((0..more).map(|i| i as f64));
            assert_eq!((values[0], values[1], values.len()), (1.5, 2.5, 2 + more));
            assert!(values[2..].iter().enumerate().all(|(i, value)| *value == i as f64));
        }
    }
}
