//! [`Trial`]: the suite's fixture of a connected program. It must not know the program's engine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use taskbridge_sdk::suite::{
    ArtifactJob, Claims, Fixture, LogJob, QuestionJob, RefusedJob, RepeatedStart, job,
};
use taskbridge_sdk::{Backend, JobHandle, JobSpec, async_trait};

use super::plan::Plan;
use crate::core::Core;
use crate::driver::session::Ability;
use crate::protocol::Once;

pub(super) struct Trial {
    pub(super) core: Arc<Core>,
    pub(super) plan: Plan,
}

fn spec(target: &Map<String, Value>, arguments: &Map<String, Value>) -> JobSpec {
    job(Value::Object(target.clone()), Value::Object(arguments.clone()))
}

#[async_trait]
impl Fixture for Trial {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SearchOnly,
        questions: false,
        notes: false,
        logs: false,
        artifacts: false,
        wakeups: false,
        discovery: false,
        checkup: false,
        hooks: false,
        refuses: false,
        counts_starts: false,
        faults: &[],
    };

    fn claims(&self) -> Claims {
        let session = self.core.link.last_session();
        Claims {
            repeated_start: match session.once {
                Once::Key => RepeatedStart::SameJob,
                Once::None => RepeatedStart::SearchOnly,
            },
            questions: session.has(Ability::Answer),
            logs: session.has(Ability::Log),
            artifacts: session.has(Ability::Artifact),
            wakeups: session.has(Ability::Changed),
            discovery: session.has(Ability::Discover),
            checkup: session.has(Ability::CheckUp),
            hooks: session.has(Ability::Changed) && self.core.proof.is_some(),
            refuses: self.plan.refused.is_some(),
            ..Self::CLAIMS
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.plan.timeout_seconds.unwrap_or(30).into())
    }

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.core) as _
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        let job = &self.plan.succeeding;
        (spec(&job.target, &job.arguments), job.text.clone())
    }

    fn failing_job(&self) -> JobSpec {
        spec(&self.plan.failing.target, &self.plan.failing.arguments)
    }

    fn long_job(&self) -> JobSpec {
        spec(&self.plan.long.target, &self.plan.long.arguments)
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(self.plan.unknown_handle.clone())
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let job = self.plan.question.as_ref()?;
        Some(QuestionJob { job: spec(&job.target, &job.arguments), answer: job.answer.clone() })
    }

    fn log_job(&self) -> Option<LogJob> {
        let job = self.plan.log.as_ref()?;
        Some(LogJob { job: spec(&job.target, &job.arguments), lines: job.lines.clone() })
    }

    fn artifact_job(&self) -> Option<ArtifactJob> {
        let job = self.plan.artifact.as_ref()?;
        let (name, bytes) = (job.name.clone(), job.text.clone().into_bytes());
        Some(ArtifactJob { job: spec(&job.target, &job.arguments), name, bytes })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = self.plan.refused.as_ref()?;
        Some(RefusedJob { job: spec(&job.target, &job.arguments), message: job.text.clone() })
    }

    fn missing_target(&self) -> Option<Value> {
        self.plan.check_up.as_ref().map(|check| Value::Object(check.missing_target.clone()))
    }
}
