//! Opens and reads files that other processes can change: files of jobs, and files that callers name. This
//! folder must not know jobs, or what the files mean.

mod bounded;
mod confined_open;
mod source_file;

pub use bounded::{BoundedFile, open_regular};
pub use confined_open::open_confined;
pub use source_file::SourceFile;
