//! All metrics by name, with their help texts. Series with a small fixed set of labels start at zero, so that
//! the first event shows as an increase. It must not measure anything: the other modules do.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Labels with their values.
pub(super) type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];
/// A gauge with floating-point values.
pub(super) type Real = Gauge<f64, AtomicU64>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// All metric families.
pub(super) struct Families {
    pub(super) created: Family<Labels<1>, Counter>,
    pub(super) ended: Family<Labels<2>, Counter>,
    pub(super) in_state: Histograms<2>,
    pub(super) duration: Histograms<2>,
    pub(super) tasks: Family<Labels<2>, Gauge>,
    pub(super) kept: Gauge,
    pub(super) queue_oldest: Real,
    pub(super) engine_calls: Family<Labels<3>, Counter>,
    pub(super) engine_duration: Histograms<2>,
    pub(super) observed: Family<Labels<2>, Counter>,
    pub(super) engine_connected: Family<Labels<1>, Gauge>,
    pub(super) engine_crashes: Family<Labels<1>, Counter>,
    pub(super) backoff: Family<Labels<1>, Real>,
    pub(super) budget_left: Family<Labels<2>, Real>,
    pub(super) budget_limit: Family<Labels<2>, Real>,
    pub(super) lag: Histograms<1>,
    pub(super) overdue: Real,
    pub(super) store_duration: Histograms<1>,
    pub(super) store_errors: Family<Labels<1>, Counter>,
    pub(super) tally_errors: Counter,
    pub(super) requests: Family<Labels<2>, Counter>,
    pub(super) request_duration: Histograms<1>,
    pub(super) http_responses: Family<Labels<2>, Counter>,
    pub(super) refused: Family<Labels<1>, Counter>,
    pub(super) streams: Family<Labels<1>, Gauge>,
    pub(super) sessions_begun: Counter,
    pub(super) sessions: Gauge,
    pub(super) owed: Gauge,
    pub(super) owed_oldest: Real,
    pub(super) deliveries: Family<Labels<1>, Counter>,
    pub(super) audit_events: Family<Labels<1>, Counter>,
    pub(super) audit_failures: Counter,
}

/// Creates a histogram for jobs, from a tenth of a second to a day.
fn long() -> Histogram {
    Histogram::new([0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0])
}

/// Creates a histogram for network calls, and for work that should be immediate.
fn short() -> Histogram {
    Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

/// Creates a histogram for database operations.
fn quick() -> Histogram {
    Histogram::new([0.000_05, 0.000_2, 0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0])
}

impl Families {
    /// Creates all families and registers them.
    #[rustfmt::skip]
    pub(super) fn registered(to: &mut Registry) -> Self {
        let all = Self {
            created: Family::default(),
            ended: Family::default(),
            in_state: Family::new_with_constructor(long),
            duration: Family::new_with_constructor(long),
            tasks: Family::default(),
            kept: Gauge::default(),
            queue_oldest: Real::default(),
            engine_calls: Family::default(),
            engine_duration: Family::new_with_constructor(short),
            observed: Family::default(),
            engine_connected: Family::default(),
            engine_crashes: Family::default(),
            backoff: Family::default(),
            budget_left: Family::default(),
            budget_limit: Family::default(),
            lag: Family::new_with_constructor(short),
            overdue: Real::default(),
            store_duration: Family::new_with_constructor(quick),
            store_errors: Family::default(),
            tally_errors: Counter::default(),
            requests: Family::default(),
            request_duration: Family::new_with_constructor(short),
            http_responses: Family::default(),
            refused: Family::default(),
            streams: Family::default(),
            sessions_begun: Counter::default(),
            sessions: Gauge::default(),
            owed: Gauge::default(),
            owed_oldest: Real::default(),
            deliveries: Family::default(),
            audit_events: Family::default(),
            audit_failures: Counter::default(),
        };
        let to = to.sub_registry_with_prefix("taskbridge");
        to.register("build", "The program that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));

        to.register("tasks_created", "Tasks that this process made, by tool", all.created.clone());
        to.register("tasks_ended", "Tasks that this process saw to their end, by tool and outcome (succeeded, failed, cancelled, broken)", all.ended.clone());
        to.register_with_unit("task_state_duration", "How long tasks were in a state that they have left: queued and starting count from the creation, running from when the engine had the job, input_required from the first open question", Unit::Seconds, all.in_state.clone());
        to.register_with_unit("task_duration", "How long tasks took from their creation to their end, by tool and outcome", Unit::Seconds, all.duration.clone());
        to.register("tasks", "Tasks with a pending action or a job that may run, by tool and state (queued, pending, starting, running, input_required, ending); the same from every replica", all.tasks.clone());
        to.register("tasks_kept", "Tasks of the store that are over and kept for their results; the same from every replica", all.kept.clone());
        to.register_with_unit("queue_oldest", "How long the task has waited that waits longest for a free slot; 0 if none does; the same from every replica", Unit::Seconds, all.queue_oldest.clone());

        to.register("engine_calls", "Calls to engines, by backend, operation and outcome (ok, rejected, denied, config, limited, unavailable, uncertain, given_up)", all.engine_calls.clone());
        to.register_with_unit("engine_call_duration", "How long calls to engines took", Unit::Seconds, all.engine_duration.clone());
        to.register("engine_jobs_observed", "Polled jobs, by backend and outcome; one call polls many", all.observed.clone());
        to.register("engine_connected", "1 for each backend that is connected as the config has it, 0 for one that could not be connected and is tried again", all.engine_connected.clone());
        to.register("engine_crashes", "Panics in the code of adapters, by backend; each one failed a single call, and the log says where", all.engine_crashes.clone());
        to.register_with_unit("engine_backoff", "For how long yet an engine wants to be left alone that asked for patience; 0 if it does not", Unit::Seconds, all.backoff.clone());
        to.register("engine_budget_left", "Calls that the engine still allows in its present period, where the adapter knows", all.budget_left.clone());
        to.register("engine_budget_limit", "Calls that the engine allows in a period, where the adapter knows", all.budget_limit.clone());

        to.register_with_unit("reconcile_lag", "Delay between the due time and the start of the work: act is an action for a row, look is a poll of open jobs", Unit::Seconds, all.lag.clone());
        to.register_with_unit("reconcile_overdue", "How long the oldest due row waits for a replica; 0 if no row is due; the same from every replica", Unit::Seconds, all.overdue.clone());

        to.register_with_unit("store_operation_duration", "How long operations of the store took", Unit::Seconds, all.store_duration.clone());
        to.register("store_errors", "Operations of the store that failed", all.store_errors.clone());
        to.register("store_tally_errors", "Scrapes for which the store could not count: what is the same from every replica is then as it was before", all.tally_errors.clone());

        to.register("requests", "Requests of the protocol, over HTTP and stdio, by method and outcome (ok, error, given_up: the client disconnected first)", all.requests.clone());
        to.register_with_unit("request_duration", "How long requests took to be answered; plain calls wait for their jobs, and subscriptions last", Unit::Seconds, all.request_duration.clone());
        to.register("http_responses", "Responses to requests for /mcp, by HTTP method and status", all.http_responses.clone());
        to.register("requests_refused", "Requests that were refused, by reason (unauthenticated, forbidden, not_found, too_many)", all.refused.clone());
        to.register("streams_open", "Streams that are open in this process, by kind (listening, waiting for an answer)", all.streams.clone());
        to.register("sessions_begun", "Sessions that were begun with this process", all.sessions_begun.clone());
        to.register("sessions_open", "Sessions of which something is open in this process", all.sessions.clone());

        to.register("notices_owed", "Notices that are not delivered yet; the same from every replica", all.owed.clone());
        to.register_with_unit("notices_oldest", "Age of the oldest notice that is not delivered yet; 0 if there is none; the same from every replica", Unit::Seconds, all.owed_oldest.clone());
        to.register("notices", "What came of notices, by outcome (delivered, put_off, dropped)", all.deliveries.clone());

        to.register("audit_events", "Events of the audit log, whether it is kept or not, by their names in docs/audit.md", all.audit_events.clone());
        to.register("audit_failures", "How often the audit log could not be written to one of its places; it is tried again every second", all.audit_failures.clone());

        for reason in ["unauthenticated", "forbidden", "not_found", "too_many"] {
            drop(all.refused.get_or_create(&[("reason", reason.into())]));
        }
        for kind in ["listening", "waiting"] {
            drop(all.streams.get_or_create(&[("kind", kind.into())]));
        }
        for outcome in ["delivered", "put_off", "dropped"] {
            drop(all.deliveries.get_or_create(&[("outcome", outcome.into())]));
        }
        for what in ["act", "look"] {
            drop(all.lag.get_or_create(&[("what", what.into())]));
        }
        all
    }
}
