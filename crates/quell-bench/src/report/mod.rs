//! Self-contained HTML pages: no network, no script, light and dark.

mod figures;
mod page;

pub use figures::{latency_chart, latency_timeline, work_timeline};
pub use page::{Block, Cell, Page, Row};
