//! All metrics by name, with their help texts. Series with a small fixed set of labels start at zero, so that
//! the first event shows as an increase. It must not measure anything: the other modules do.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

/// Labels with their values.
pub(super) type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];
/// A gauge with floating-point values.
pub(super) type FloatGauge = Gauge<f64, AtomicU64>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// All metric families.
pub(super) struct Families {
    pub(super) created: Family<Labels<1>, Counter>,
    pub(super) ended: Family<Labels<2>, Counter>,
    pub(super) state_duration: Histograms<2>,
    pub(super) duration: Histograms<2>,
    pub(super) tasks: Family<Labels<2>, Gauge>,
    pub(super) tasks_kept: Gauge,
    pub(super) queue_oldest: FloatGauge,
    pub(super) engine_calls: Family<Labels<3>, Counter>,
    pub(super) engine_duration: Histograms<2>,
    pub(super) jobs_observed: Family<Labels<2>, Counter>,
    pub(super) engine_connected: Family<Labels<1>, Gauge>,
    pub(super) engine_crashes: Family<Labels<1>, Counter>,
    pub(super) backoff: Family<Labels<1>, FloatGauge>,
    pub(super) budget_left: Family<Labels<2>, FloatGauge>,
    pub(super) budget_limit: Family<Labels<2>, FloatGauge>,
    pub(super) lag: Histograms<1>,
    pub(super) overdue: FloatGauge,
    pub(super) store_duration: Histograms<1>,
    pub(super) store_errors: Family<Labels<1>, Counter>,
    pub(super) tally_errors: Counter,
    pub(super) requests: Family<Labels<2>, Counter>,
    pub(super) request_duration: Histograms<1>,
    pub(super) http_responses: Family<Labels<2>, Counter>,
    pub(super) requests_refused: Family<Labels<1>, Counter>,
    pub(super) streams: Family<Labels<1>, Gauge>,
    pub(super) sessions_begun: Counter,
    pub(super) sessions: Gauge,
    pub(super) pending_notices: Gauge,
    pub(super) oldest_notice: FloatGauge,
    pub(super) deliveries: Family<Labels<1>, Counter>,
    pub(super) audit_events: Family<Labels<1>, Counter>,
    pub(super) audit_failures: Counter,
}

/// Creates a histogram for jobs, from a tenth of a second to a day.
fn job_histogram() -> Histogram {
    Histogram::new([0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0])
}

/// Creates a histogram for network calls, and for work that should be immediate.
fn call_histogram() -> Histogram {
    Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

/// Creates a histogram for database operations.
fn database_histogram() -> Histogram {
    Histogram::new([0.000_05, 0.000_2, 0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0])
}

/// Registers a metric and returns it.
fn plain<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a metric whose unit is seconds, and returns it.
fn in_seconds<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

impl Families {
    /// Creates all families and registers them.
    #[rustfmt::skip]
    pub(super) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("taskbridge");
        registry.register("build", "The version of the program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        let families = Self {
            created: plain(registry, "tasks_created", "Tasks that this process created, by tool", Family::default()),
            ended: plain(registry, "tasks_ended", "Tasks whose end this process recorded, by tool and outcome (succeeded, failed, cancelled, broken)", Family::default()),
            state_duration: in_seconds(registry, "task_state_duration", "How long tasks were in a state, recorded when they leave it: queued and starting count from the creation, running from the start of the job, input_required from the first open question", Family::new_with_constructor(job_histogram)),
            duration: in_seconds(registry, "task_duration", "How long tasks took from their creation to their end, by tool and outcome", Family::new_with_constructor(job_histogram)),
            tasks: plain(registry, "tasks", "Tasks with a pending action or a job that may run, by tool and state (queued, pending, starting, running, input_required, ending); the same from every replica", Family::default()),
            tasks_kept: plain(registry, "tasks_kept", "Ended tasks that the store keeps for their results; the same from every replica", Gauge::default()),
            queue_oldest: in_seconds(registry, "queue_oldest", "Longest current wait of a task for a free slot; 0 if none waits; the same from every replica", FloatGauge::default()),

            engine_calls: plain(registry, "engine_calls", "Calls to engines, by backend, operation and outcome (ok, rejected, denied, config, limited, unavailable, uncertain, given_up)", Family::default()),
            engine_duration: in_seconds(registry, "engine_call_duration", "How long calls to engines took", Family::new_with_constructor(call_histogram)),
            jobs_observed: plain(registry, "engine_jobs_observed", "Polled jobs, by backend and outcome; one call polls many", Family::default()),
            engine_connected: plain(registry, "engine_connected", "1 for each backend that is connected with the current config, 0 for one whose connection failed and is retried", Family::default()),
            engine_crashes: plain(registry, "engine_crashes", "Panics in the code of adapters, by backend; each fails a single call, and the log shows where", Family::default()),
            backoff: in_seconds(registry, "engine_backoff", "Remaining backoff that the engine requested; 0 if there is none", Family::default()),
            budget_left: plain(registry, "engine_budget_left", "Remaining calls in the current rate limit period of the engine, if the adapter knows them", Family::default()),
            budget_limit: plain(registry, "engine_budget_limit", "Allowed calls in a rate limit period of the engine, if the adapter knows them", Family::default()),

            lag: in_seconds(registry, "reconcile_lag", "Delay between the due time and the start of the work: act is an action for a row, look is a poll of open jobs", Family::new_with_constructor(call_histogram)),
            overdue: in_seconds(registry, "reconcile_overdue", "How long the oldest due row waits for a replica; 0 if no row is due; the same from every replica", FloatGauge::default()),

            store_duration: in_seconds(registry, "store_operation_duration", "How long operations of the store took", Family::new_with_constructor(database_histogram)),
            store_errors: plain(registry, "store_errors", "Operations of the store that failed", Family::default()),
            tally_errors: plain(registry, "store_tally_errors", "Scrapes for which the store could not be read: what is the same from every replica then keeps its previous value", Counter::default()),

            requests: plain(registry, "requests", "Requests of the protocol, over HTTP and stdio, by method and outcome (ok, error, given_up: the client disconnected first)", Family::default()),
            request_duration: in_seconds(registry, "request_duration", "How long requests took; plain calls wait for their jobs, and subscriptions stay open", Family::new_with_constructor(call_histogram)),
            http_responses: plain(registry, "http_responses", "Responses to requests for /mcp, by HTTP method and status", Family::default()),
            requests_refused: plain(registry, "requests_refused", "Requests that were refused, by reason (unauthenticated, forbidden, not_found, too_many)", Family::default()),
            streams: plain(registry, "streams_open", "Streams that are open in this process, by kind (listening, waiting for an answer)", Family::default()),
            sessions_begun: plain(registry, "sessions_begun", "Sessions that began in this process", Counter::default()),
            sessions: plain(registry, "sessions_open", "Sessions with an open stream or request in this process", Gauge::default()),

            pending_notices: plain(registry, "notices_owed", "Notices that are not delivered yet; the same from every replica", Gauge::default()),
            oldest_notice: in_seconds(registry, "notices_oldest", "Age of the oldest notice that is not delivered yet; 0 if there is none; the same from every replica", FloatGauge::default()),
            deliveries: plain(registry, "notices", "Results of notices, by outcome (delivered, put_off, dropped)", Family::default()),

            audit_events: plain(registry, "audit_events", "Events of the audit log, even if it is off, by their names in docs/audit.md", Family::default()),
            audit_failures: plain(registry, "audit_failures", "Failed writes of the audit log to one of its sinks; they are retried every second", Counter::default()),
        };

        for reason in ["unauthenticated", "forbidden", "not_found", "too_many"] {
            drop(families.requests_refused.get_or_create(&[("reason", reason.into())]));
        }
        for kind in ["listening", "waiting"] {
            drop(families.streams.get_or_create(&[("kind", kind.into())]));
        }
        for outcome in ["delivered", "put_off", "dropped"] {
            drop(families.deliveries.get_or_create(&[("outcome", outcome.into())]));
        }
        for what in ["act", "look"] {
            drop(families.lag.get_or_create(&[("what", what.into())]));
        }
        families
    }
}
