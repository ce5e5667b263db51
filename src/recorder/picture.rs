//! Draws events and bars as SVG. Short gaps between events would vanish in a linear scale of hours, so the
//! scale compresses long ones. The picture has no text of engines: that is in the list.

use maud::{Markup, html};
use taskbridge_sdk::Timestamp;

use super::text::exact;
use super::words::Bar;
use super::{Event, Lane};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 980.0;
const LANE_HEIGHT: f64 = 44.0;
const TOP: f64 = 12.0;
/// Maximum number of labels at the axis.
const MAX_LABELS: usize = 8;

/// Maps times to positions.
struct Scale {
    /// Known times and their positions, in order.
    points: Vec<(Timestamp, f64)>,
}

impl Scale {
    /// Creates a scale on which each gap between these times has a width by the logarithm of its length.
    fn new(mut times: Vec<Timestamp>) -> Self {
        times.sort_unstable();
        times.dedup();
        let weight = |pair: &[Timestamp]| match pair {
            [from, until] => 1.0 + (1.0 + until.since(*from).as_secs_f64() * 10.0).ln(),
            _ => 0.0,
        };
        let total: f64 = times.windows(2).map(weight).sum();
        let mut points: Vec<(Timestamp, f64)> =
            times.first().map(|first| (*first, LEFT)).into_iter().collect();
        let mut position = LEFT;
        for pair in times.windows(2) {
            position += weight(pair) / total.max(f64::MIN_POSITIVE) * (RIGHT - LEFT);
            points.push((pair[1], position));
        }
        Self { points }
    }

    fn x(&self, at: Timestamp) -> f64 {
        let next = self.points.partition_point(|(known, _)| *known < at);
        self.points.get(next).or(self.points.last()).map_or(LEFT, |(_, x)| *x)
    }
}

fn y(lane: Lane) -> f64 {
    let nth = Lane::ALL.iter().position(|other| *other == lane).unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "there are three lanes")]
    let nth = nth as f64;
    TOP + LANE_HEIGHT * (nth + 0.5)
}

/// Returns a coordinate with one decimal.
fn coordinate(value: f64) -> String {
    format!("{value:.1}")
}

/// Draws the picture.
pub(super) fn draw(
    events: &[Event],
    bars: &[Bar],
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
) -> Markup {
    let times = events.iter().map(|event| event.at).chain(bars.iter().flat_map(|bar| [bar.from, bar.until]));
    let scale = Scale::new(times.chain([created_at]).chain(ended_at).collect());
    let bottom = TOP + LANE_HEIGHT * 3.0;
    let step = scale.points.len().div_ceil(MAX_LABELS).max(1);
    let summary =
        format!("{} events of this task in three lanes; the list below has them as text", events.len());
    html! {
        div.recorder tabindex="0" role="group" aria-label="Course of the task" {
            svg viewBox={ "0 0 " (WIDTH) " " (bottom + 24.0) } role="img" aria-label=(summary) {
                @for lane in Lane::ALL {
                    text class="quiet" x="8" y=(coordinate(y(lane) + 4.0)) { (lane.name()) }
                    line class="lane" x1=(LEFT) x2=(RIGHT) y1=(y(lane)) y2=(y(lane)) {}
                }
                @for (_, x) in scale.points.iter().step_by(step) {
                    line class="tick" x1=(coordinate(*x)) x2=(coordinate(*x)) y1=(TOP) y2=(bottom) {}
                }
                @for (at, x) in scale.points.iter().step_by(step) {
                    // A label at the right edge would be cut off.
                    @let anchor = if *x > RIGHT - 30.0 { "end" } else { "middle" };
                    text class="quiet" x=(coordinate(*x)) y=(bottom + 16.0) text-anchor=(anchor) {
                        "+" (exact(at.since(created_at)))
                    }
                }
                @for bar in bars {
                    @let (from, until) = (scale.x(bar.from), scale.x(bar.until));
                    rect class={ "bar " (bar.class) } x=(coordinate(from)) y=(coordinate(y(bar.lane) - 8.0))
                        width=(coordinate((until - from).max(2.0))) height="16" {
                        title { (bar.label) " for " (exact(bar.until.since(bar.from))) }
                    }
                }
                @for event in events {
                    circle class={ "dot " (event.tone.class()) } cx=(coordinate(scale.x(event.at)))
                        cy=(coordinate(y(event.lane))) r="6" {
                        title { "+" (exact(event.at.since(created_at))) " " (event.lane.name()) ": " (event.text) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scale keeps the order, and shows short gaps beside long ones.
    #[test]
    fn scale_shows_short_and_long_gaps() {
        let at = Timestamp::from_millis;
        let scale = Scale::new(vec![at(3_600_000), at(0), at(50), at(50)]);
        let (start, soon, end) = (scale.x(at(0)), scale.x(at(50)), scale.x(at(3_600_000)));
        assert!((start - LEFT).abs() < 0.01 && (end - RIGHT).abs() < 0.01, "{start} {end}");
        assert!(soon - start > 50.0 && soon < end, "{soon}");
        assert!((Scale::new(vec![at(5)]).x(at(5)) - LEFT).abs() < 0.01);
        assert!(Scale::new(Vec::new()).x(at(5)).is_finite());
    }
}
