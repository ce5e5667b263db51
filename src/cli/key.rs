//! `taskbridge key new`: makes an API key, shows it once, and says what the config has of it. It must not keep the key
//! anywhere.

use clap::{Args, Subcommand};

use super::print;
use crate::auth;
use crate::clock::System;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make an API key: print it, and the lines of the config by which it is let in.
    New(New),
}

#[derive(Args)]
pub(super) struct New {
    /// Whose key it is: the owner of the tasks that it makes.
    #[arg(long, value_name = "NAME")]
    principal: String,
    /// A group that its principal is in.
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// A scope that it grants.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// When it ends to be good: a date (UTC), or a moment such as 2027-01-31T12:00:00Z.
    #[arg(long, value_name = "DATE")]
    expires: Option<String>,
}

pub(super) fn run(command: &Command) {
    let Command::New(new) = command;
    let (key, sha256) = auth::make_key(&System);
    print(&format!(
        "{}\n\nIt is shown this once and kept nowhere: hand it over, and put this into the config:\n\n{}",
        *key,
        new.as_toml(&sha256)
    ));
}

impl New {
    fn as_toml(&self, sha256: &str) -> String {
        let text = |text: &str| toml::Value::from(text).to_string();
        let texts = |texts: &[String]| toml::Value::from(texts.to_vec()).to_string();
        let mut lines =
            format!("[[auth.keys]]\nprincipal = {}\nsha256 = {}\n", text(&self.principal), text(sha256));
        let lists = [("groups", &self.groups), ("scopes", &self.scopes)];
        for (name, values) in lists.into_iter().filter(|(_, values)| !values.is_empty()) {
            lines.push_str(&format!("{name} = {}\n", texts(values)));
        }
        if let Some(expires) = &self.expires {
            lines.push_str(&format!("expires = {}\n", text(expires)));
        }
        lines
    }
}
