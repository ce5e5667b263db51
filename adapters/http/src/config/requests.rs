//! All requests of a config. It must not render or send them.

use super::{Config, Request};

impl Config {
    /// Returns all requests, each with its field.
    pub(crate) fn requests(&self) -> Vec<(String, &Request)> {
        let mut requests = vec![("start".to_owned(), &self.start.request)];
        requests.extend(self.find.iter().map(|find| ("find".to_owned(), &find.request)));
        requests.extend(self.observe.iter().map(|observe| ("observe".to_owned(), &observe.request)));
        requests.extend(self.more.iter().enumerate().map(|(n, more)| (format!("more[{n}]"), &more.request)));
        requests.extend(self.list.iter().map(|list| ("list".to_owned(), &list.request)));
        requests.extend(self.answer.iter().map(|answer| ("answer".to_owned(), &answer.request)));
        let decline = self.answer.iter().filter_map(|answer| answer.decline.as_ref());
        requests.extend(decline.map(|decline| ("answer.decline".to_owned(), decline)));
        requests.extend(self.cancel.iter().map(|cancel| ("cancel".to_owned(), &cancel.request)));
        requests.extend(self.log.iter().map(|log| ("log".to_owned(), &log.request)));
        requests.extend(self.artifacts.iter().map(|artifacts| ("artifacts".to_owned(), &artifacts.request)));
        requests.extend(self.discover.iter().map(|discover| ("discover".to_owned(), &discover.request)));
        let detail = self.discover.iter().filter_map(|discover| discover.detail.as_ref());
        requests.extend(detail.map(|detail| ("discover.detail".to_owned(), detail)));
        requests
            .extend(self.doctor.credentials.iter().map(|request| ("doctor.credentials".to_owned(), request)));
        requests.extend(self.doctor.tool.iter().map(|tool| ("doctor.tool".to_owned(), &tool.request)));
        requests
    }
}
