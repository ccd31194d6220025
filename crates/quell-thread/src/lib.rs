//! What a thread of Quell's reads and sets about itself: its clocks and its scheduling class. Other work is the hosts'.

pub mod class;
pub mod clock;

pub use class::Class;
