//! Pieces of pages: the layout, times and states, and forms from JSON Schemas. They get plain data and must
//! not read anything.

pub(super) mod form;
pub(super) mod layout;
pub(super) mod pieces;
