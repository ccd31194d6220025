//! State of the calling thread that Quell reads and sets: its clocks and its scheduling class. Other threads are the
//! hosts'.

pub mod class;
pub mod clock;

pub use class::Class;
