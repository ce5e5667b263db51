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

impl Families {
    /// Creates all families and registers them.
    #[rustfmt::skip]
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Self {
            created: Family::default(),
            ended: Family::default(),
            state_duration: Family::new_with_constructor(job_histogram),
            duration: Family::new_with_constructor(job_histogram),
            tasks: Family::default(),
            tasks_kept: Gauge::default(),
            queue_oldest: FloatGauge::default(),
            engine_calls: Family::default(),
            engine_duration: Family::new_with_constructor(call_histogram),
            jobs_observed: Family::default(),
            engine_connected: Family::default(),
            engine_crashes: Family::default(),
            backoff: Family::default(),
            budget_left: Family::default(),
            budget_limit: Family::default(),
            lag: Family::new_with_constructor(call_histogram),
            overdue: FloatGauge::default(),
            store_duration: Family::new_with_constructor(database_histogram),
            store_errors: Family::default(),
            tally_errors: Counter::default(),
            requests: Family::default(),
            request_duration: Family::new_with_constructor(call_histogram),
            http_responses: Family::default(),
            requests_refused: Family::default(),
            streams: Family::default(),
            sessions_begun: Counter::default(),
            sessions: Gauge::default(),
            pending_notices: Gauge::default(),
            oldest_notice: FloatGauge::default(),
            deliveries: Family::default(),
            audit_events: Family::default(),
            audit_failures: Counter::default(),
        };
        let registry = registry.sub_registry_with_prefix("taskbridge");
        registry.register("build", "The version of the program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));

        registry.register("tasks_created", "Tasks that this process created, by tool", families.created.clone());
        registry.register("tasks_ended", "Tasks whose end this process recorded, by tool and outcome (succeeded, failed, cancelled, broken)", families.ended.clone());
        registry.register_with_unit("task_state_duration", "How long tasks were in a state, recorded when they leave it: queued and starting count from the creation, running from the start of the job, input_required from the first open question", Unit::Seconds, families.state_duration.clone());
        registry.register_with_unit("task_duration", "How long tasks took from their creation to their end, by tool and outcome", Unit::Seconds, families.duration.clone());
        registry.register("tasks", "Tasks with a pending action or a job that may run, by tool and state (queued, pending, starting, running, input_required, ending); the same from every replica", families.tasks.clone());
        registry.register("tasks_kept", "Ended tasks that the store keeps for their results; the same from every replica", families.tasks_kept.clone());
        registry.register_with_unit("queue_oldest", "Longest current wait of a task for a free slot; 0 if none waits; the same from every replica", Unit::Seconds, families.queue_oldest.clone());

        registry.register("engine_calls", "Calls to engines, by backend, operation and outcome (ok, rejected, denied, config, limited, unavailable, uncertain, given_up)", families.engine_calls.clone());
        registry.register_with_unit("engine_call_duration", "How long calls to engines took", Unit::Seconds, families.engine_duration.clone());
        registry.register("engine_jobs_observed", "Polled jobs, by backend and outcome; one call polls many", families.jobs_observed.clone());
        registry.register("engine_connected", "1 for each backend that is connected with the current config, 0 for one whose connection failed and is retried", families.engine_connected.clone());
        registry.register("engine_crashes", "Panics in the code of adapters, by backend; each fails a single call, and the log shows where", families.engine_crashes.clone());
        registry.register_with_unit("engine_backoff", "Remaining backoff that the engine requested; 0 if there is none", Unit::Seconds, families.backoff.clone());
        registry.register("engine_budget_left", "Remaining calls in the current rate limit period of the engine, if the adapter knows them", families.budget_left.clone());
        registry.register("engine_budget_limit", "Allowed calls in a rate limit period of the engine, if the adapter knows them", families.budget_limit.clone());

        registry.register_with_unit("reconcile_lag", "Delay between the due time and the start of the work: act is an action for a row, look is a poll of open jobs", Unit::Seconds, families.lag.clone());
        registry.register_with_unit("reconcile_overdue", "How long the oldest due row waits for a replica; 0 if no row is due; the same from every replica", Unit::Seconds, families.overdue.clone());

        registry.register_with_unit("store_operation_duration", "How long operations of the store took", Unit::Seconds, families.store_duration.clone());
        registry.register("store_errors", "Operations of the store that failed", families.store_errors.clone());
        registry.register("store_tally_errors", "Scrapes for which the store could not be read: what is the same from every replica then keeps its previous value", families.tally_errors.clone());

        registry.register("requests", "Requests of the protocol, over HTTP and stdio, by method and outcome (ok, error, given_up: the client disconnected first)", families.requests.clone());
        registry.register_with_unit("request_duration", "How long requests took; plain calls wait for their jobs, and subscriptions stay open", Unit::Seconds, families.request_duration.clone());
        registry.register("http_responses", "Responses to requests for /mcp, by HTTP method and status", families.http_responses.clone());
        registry.register("requests_refused", "Requests that were refused, by reason (unauthenticated, forbidden, not_found, too_many)", families.requests_refused.clone());
        registry.register("streams_open", "Streams that are open in this process, by kind (listening, waiting for an answer)", families.streams.clone());
        registry.register("sessions_begun", "Sessions that began in this process", families.sessions_begun.clone());
        registry.register("sessions_open", "Sessions with an open stream or request in this process", families.sessions.clone());

        registry.register("notices_owed", "Notices that are not delivered yet; the same from every replica", families.pending_notices.clone());
        registry.register_with_unit("notices_oldest", "Age of the oldest notice that is not delivered yet; 0 if there is none; the same from every replica", Unit::Seconds, families.oldest_notice.clone());
        registry.register("notices", "Results of notices, by outcome (delivered, put_off, dropped)", families.deliveries.clone());

        registry.register("audit_events", "Events of the audit log, even if it is off, by their names in docs/audit.md", families.audit_events.clone());
        registry.register("audit_failures", "Failed writes of the audit log to one of its sinks; they are retried every second", families.audit_failures.clone());

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
