//! The flight recorder: the life of a task in three lanes, client, bridge and engine. [`words`] sorts the
//! kept history into lanes and puts it into words, and [`picture`] draws it. The same entries follow as a
//! list, for screen readers and for those who want to read. The console shows it in its pages, and the view
//! of a task in chats shows the same drawing. [`text`] has the words for states and times that both show.
//! This module must not read anything.

mod picture;
pub mod text;
mod words;

use maud::{Markup, html};
use taskbridge_sdk::Timestamp;

use self::text::exact;
use crate::tasks::history::HistoryEntry;
use crate::tasks::service::View;

/// The style sheet of the drawing. Its colours are variables that the page defines.
pub const STYLE: &str = include_str!("recorder.css");

/// Maximum number of events that are drawn and listed: the first ones, and the last ones.
const MAX_EVENTS: usize = 120;

/// The lane of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Client,
    Bridge,
    Engine,
}

/// How an event looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Good,
    Bad,
    Warn,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    at: Timestamp,
    lane: Lane,
    tone: Tone,
    text: String,
}

impl Lane {
    const ALL: [Lane; 3] = [Self::Client, Self::Bridge, Self::Engine];

    fn name(self) -> &'static str {
        match self {
            Lane::Client => "client",
            Lane::Bridge => "bridge",
            Lane::Engine => "engine",
        }
    }
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Warn => "warn",
        }
    }
}

/// Renders the picture and the list of events. Bars of what has not ended last until `now`.
pub fn render(view: &View, history: &[HistoryEntry], now: Timestamp) -> Markup {
    if history.is_empty() {
        return html! { p.empty { "No history is kept (" code { "[store] history" } ")." } };
    }
    let mut events = words::events(history, view.task.created_at);
    let omitted = events.len().saturating_sub(MAX_EVENTS);
    if omitted > 0 {
        events.drain(MAX_EVENTS / 2..MAX_EVENTS / 2 + omitted);
    }
    let bars = words::bars(history, view, now);
    html! {
        (picture::draw(&events, &bars, view.task.created_at, view.task.ended_at))
        @if omitted > 0 { p.hint { (omitted) " events in the middle are left out." } }
        ol.events aria-label="Events" {
            @for event in &events {
                li {
                    span.hint title=(event.at) { "+" (exact(event.at.since(view.task.created_at))) }
                    span.hint { (event.lane.name()) }
                    span class=(event.tone.class()) { (event.text) }
                }
            }
        }
    }
}
