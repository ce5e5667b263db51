//! `taskbridge key new`: generates an API key, and prints it once, with its config entry. It must not store
//! the key.

use clap::{Args, Subcommand};

use super::print;
use crate::auth;
use crate::clock::System;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Generate an API key, and print it with the config lines that accept it.
    New(New),
}

#[derive(Args)]
pub(super) struct New {
    /// The owner of the tasks that are created with the key.
    #[arg(long, value_name = "NAME")]
    principal: String,
    /// A group of the principal.
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// A scope that it grants.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// When the key expires: a date (UTC), or a time such as 2027-01-31T12:00:00Z.
    #[arg(long, value_name = "DATE")]
    expires: Option<String>,
}

pub(super) fn run(command: &Command) {
    let Command::New(new) = command;
    let (key, sha256) = auth::make_key(&System);
    print(&format!(
        "{}\n\nThe key is shown only now and is not stored: pass it to the caller, and add this to the config:\n\n{}",
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
