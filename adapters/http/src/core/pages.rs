//! Lists with pages: link, cursor, offset, page number and address. It must not know what the items are.

use serde_json::Value;
use taskbridge_sdk::{Error, ErrorKind, Result};

use super::Http;
use crate::config::{Pages, Request};
use crate::driver::auth::By;
use crate::driver::error::reply_error;
use crate::driver::reply::Reply;
use crate::language::{Expression, Scope};

/// Most items of a list, over all pages.
const MAX_ITEMS: usize = 50_000;

/// Items of a list.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) items: Vec<Value>,
    /// How many pages were read.
    pub(crate) pages: u32,
    /// Whether there are more pages than were read.
    pub(crate) is_cut: bool,
}

/// Where the next page is.
enum Next {
    None,
    /// Parameters of the same request.
    Parameters(Vec<(String, Value)>),
    Address(String),
}

impl Http {
    /// Reads the items of all pages. `first` is the reply of the first page, if it is there already.
    ///
    /// # Errors
    /// That of the first page that is not read.
    pub(crate) async fn items(
        &self,
        what: &str,
        request: &Request,
        pages: Option<&Pages>,
        items: &Expression,
        scope: &Scope,
        first: Option<Reply>,
    ) -> Result<Items> {
        let most = pages.map_or(1, |pages| pages.pages);
        let (mut found, mut next, mut first) = (Items::default(), Next::Parameters(Vec::new()), first);
        let mut addresses = Vec::new();
        while found.pages < most {
            let reply = match (first.take(), &next) {
                (Some(reply), _) => reply,
                (None, Next::None) => return Ok(found),
                (None, Next::Parameters(extra)) => {
                    let reply = self.call(request, scope, extra, By::Own).await;
                    self.expect_success(what, reply.map_err(|e| e.of_read(what))?, scope)?
                }
                (None, Next::Address(address)) => {
                    // An engine whose next page is one that was read would never end.
                    if addresses.contains(address) {
                        return Ok(found);
                    }
                    addresses.push(address.clone());
                    let reply = self.follow(address, request, scope).await;
                    self.expect_success(what, reply.map_err(|e| e.of_read(what))?, scope)?
                }
            };
            let reply_scope = reply.scope(scope.clone());
            let invalid =
                |message: String| Error::unavailable(format!("{what}: the reply cannot be read: {message}"));
            let page = match items.some(&reply_scope).map_err(invalid)? {
                Some(Value::Array(page)) => page,
                None => Vec::new(),
                Some(_) => return Err(invalid(format!("`{}` is not a list", items.source()))),
            };
            let count = page.len();
            found.items.extend(page);
            found.pages += 1;
            if found.items.len() > MAX_ITEMS {
                return Err(invalid(format!("it has more than {MAX_ITEMS} items")));
            }
            next = match pages {
                Some(pages) => next_page(pages, &reply, &reply_scope, count, &found).map_err(invalid)?,
                None => Next::None,
            };
        }
        found.is_cut = !matches!(next, Next::None);
        Ok(found)
    }

    /// Returns the reply if it is a success of the engine.
    ///
    /// # Errors
    /// What the reply means otherwise.
    pub(crate) fn expect_success(&self, what: &str, reply: Reply, scope: &Scope) -> Result<Reply> {
        match reply.is_success() && !reply.is_page {
            true => Ok(reply),
            false => Err(reply_error(&self.config, what, &reply, scope, ErrorKind::Unavailable)),
        }
    }
}

fn next_page(
    pages: &Pages,
    reply: &Reply,
    scope: &Scope,
    count: usize,
    found: &Items,
) -> Result<Next, String> {
    if pages.link {
        return Ok(reply.next_link().map_or(Next::None, Next::Address));
    }
    if let Some(url) = &pages.url {
        return Ok(url.text(scope)?.map_or(Next::None, Next::Address));
    }
    if let (Some(cursor), Some(name)) = (&pages.cursor, &pages.cursor_name) {
        let cursor = cursor.text(scope)?;
        return Ok(cursor.map_or(Next::None, |cursor| Next::Parameters(vec![(name.clone(), cursor.into())])));
    }
    let size = usize::try_from(pages.size.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    if count < size {
        return Ok(Next::None);
    }
    let (name, value) = match (&pages.offset, &pages.page) {
        (Some(name), _) => (name, found.items.len() as u64),
        (None, Some(name)) => (name, pages.from + u64::from(found.pages)),
        (None, None) => return Ok(Next::None),
    };
    Ok(Next::Parameters(vec![(name.clone(), value.into())]))
}
