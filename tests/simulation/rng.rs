//! The only source of randomness in a simulation: splitmix64, because a run must replay from its seed on any
//! machine.

use parking_lot::Mutex;
use taskbridge_core::clock::Entropy;

/// A stream of numbers that follows from a seed.
pub(super) struct Rng(Mutex<u64>);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        // Mixed, because the streams of adjacent seeds would otherwise be equal except for their first
        // number.
        Self(Mutex::new(mix(seed.wrapping_add(1))))
    }

    pub(super) fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(*state)
    }

    /// Returns a number below `n`.
    pub(super) fn below(&self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns true once in `n` times.
    pub(super) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Entropy for Rng {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}
