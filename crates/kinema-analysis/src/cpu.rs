//! Chooses between the baseline and the AVX2 build of the hot loops, once for each kernel; a few have one for AVX-512.
//!
//! It holds no arithmetic: both builds are compiled from the same Rust, so their results are the same bits.

/// Which build of the hot loops this processor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    wide: bool,
    wider: bool,
}

impl Cpu {
    /// The best build that this processor can run.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected;
            let wide = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let wider = wide && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt");
            Self { wide, wider }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            Self::baseline()
        }
    }

    /// The build that every processor of the target can run; the plain twin in tests.
    pub fn baseline() -> Self {
        Self { wide: false, wider: false }
    }

    /// The same without AVX-512, for tests of the build for AVX2.
    pub fn narrower(self) -> Self {
        Self { wider: false, ..self }
    }

    /// Whether AVX2 and FMA are present; true only where `detect` found them.
    #[inline(always)]
    pub fn is_wide(self) -> bool {
        self.wide
    }

    /// Whether AVX-512 F and POPCNT are present too; true only where `detect` found them.
    #[inline(always)]
    pub fn is_wider(self) -> bool {
        self.wider
    }
}

/// Asks for the cache line of an address, which may be any, and which is not read.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of the target; a prefetch of an address that is not mapped does nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Compiles one `#[inline(always)]` body, generic over its `Quad`, twice and calls the build that `cpu` names.
///
/// `dispatch!(cpu, Output, body, (a: A = x, b: B = y))` is an expression of type `Output`.
macro_rules! dispatch {
    ($cpu:expr, $output:ty, $body:ident, ($($name:ident : $type:ty = $value:expr),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,fma")]
            fn wide($($name: $type),*) -> $output {
                $body::<$crate::lanes::Wide>($($name),*)
            }
            if $cpu.is_wide() {
                // SAFETY: `is_wide` is true only if `Cpu::detect` has found AVX2 and FMA on this processor.
                unsafe { wide($($value),*) }
            } else {
                $body::<$crate::lanes::Plain>($($value),*)
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _: $crate::cpu::Cpu = $cpu;
            $body::<$crate::lanes::Plain>($($value),*)
        }
    }};
}
pub(crate) use dispatch;
