//! [`ListCache`]: pages of `tools/list` as JSON text. A page is written once for all callers with the same
//! view, and kept until the offers change or the cache is full. It must not know the contents of a page.

use std::collections::HashMap;

use axum::body::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::list::ToolPosition;
use crate::mcp::features::companions::Companion;

/// Maximum size of the cached text in bytes. Beyond it, the cache is emptied. A larger page is not cached.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of cached pages. Beyond it, the cache is emptied.
const MAX_PAGES: usize = 1_024;

/// Cache key: everything that the text of a page depends on, except the offers.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    /// The revision of the text.
    pub(crate) revision: &'static str,
    /// The companion tools that the caller is offered.
    pub(crate) companions: Vec<Companion>,
    /// For each tool of the catalog, whether the caller may call it; `None` if every caller may call all.
    pub(crate) callable: Option<Vec<bool>>,
    /// Start of the page; `None` for the first.
    pub(crate) start: Option<ToolPosition>,
}

/// A cached page.
#[derive(Clone, Debug)]
pub(crate) struct CachedPage {
    /// A JSON object.
    pub(crate) text: Bytes,
    /// Start of the next page, if there is one.
    pub(crate) next: Option<ToolPosition>,
}

/// Pages of the current offers.
#[derive(Default)]
pub(crate) struct ListCache(Mutex<Pages>);

/// The pages, locked. Read the offers only after locking: a page of older offers is then removed by
/// [`ListCache::clear`].
#[derive(Default)]
pub(crate) struct Pages {
    pages: HashMap<PageKey, CachedPage>,
    bytes: usize,
}

impl ListCache {
    /// Locks the pages.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Pages> {
        self.0.lock()
    }

    /// Removes all pages. Call it after the offers were replaced.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Pages::default();
    }
}

impl Pages {
    /// Returns the page of this key, and writes it if it is missing.
    pub(crate) fn get_or_write(&mut self, key: PageKey, write: impl FnOnce() -> CachedPage) -> CachedPage {
        if let Some(page) = self.pages.get(&key) {
            return page.clone();
        }
        let page = write();
        if self.bytes + page.text.len() > MAX_BYTES || self.pages.len() >= MAX_PAGES {
            *self = Self::default();
        }
        if page.text.len() <= MAX_BYTES {
            self.bytes += page.text.len();
            self.pages.insert(key, page.clone());
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(revision: &'static str, callable: Option<Vec<bool>>) -> PageKey {
        PageKey { revision, companions: vec![Companion::Wait], callable, start: None }
    }

    #[test]
    fn page_is_written_once_for_equals() {
        let (cache, mut writes) = (ListCache::default(), 0);
        let mut get = |key| {
            let write = || {
                writes += 1;
                CachedPage { text: format!("{{\"n\":{writes}}}").into(), next: None }
            };
            let page = cache.lock().get_or_write(key, write);
            String::from_utf8(page.text.to_vec()).unwrap()
        };
        for _ in 0..100 {
            assert_eq!(get(key("2026-07-28", None)), r#"{"n":1}"#);
            assert_eq!(get(key("2025-11-25", None)), r#"{"n":2}"#);
            assert_eq!(get(key("2025-11-25", Some(vec![true, false]))), r#"{"n":3}"#);
        }
        cache.clear();
        assert_eq!(get(key("2026-07-28", None)), r#"{"n":4}"#, "something else is offered");
    }

    #[test]
    fn kept_pages_are_bounded() {
        let cache = ListCache::default();
        let large = Bytes::from(vec![b' '; MAX_BYTES / 4]);
        for n in 0..20 {
            let callable = (0..20).map(|bit| n == bit).collect();
            let mut pages = cache.lock();
            pages.get_or_write(key("", Some(callable)), || CachedPage { text: large.clone(), next: None });
            assert!(pages.bytes <= MAX_BYTES);
            assert_eq!(pages.bytes, pages.pages.len() * large.len());
        }
        let mut pages = cache.lock();
        let huge = Bytes::from(vec![b' '; MAX_BYTES + 1]);
        pages.get_or_write(key("", None), || CachedPage { text: huge.clone(), next: None });
        assert_eq!((pages.bytes, pages.pages.len()), (0, 0));
    }
}
