//! Polls of many jobs in one message. A job whose entry is wrong fails alone. It must not guess a state.

use serde_json::value::RawValue;
use taskbridge_sdk::{Error, GroupKey, Observation, Result, Subject, from_json, one_line};

use crate::core::Core;
use crate::protocol::{ObserveParams, PollFault, PolledJob};

/// Maximum number of jobs in one message.
const MAX_JOBS: usize = 1000;

impl Core {
    pub(crate) async fn poll(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let mut observations = Vec::with_capacity(jobs.len());
        for part in jobs.chunks(MAX_JOBS) {
            let params =
                ObserveParams { group: group.clone(), jobs: part.iter().map(PolledJob::of).collect() };
            let entries = match self.call::<Vec<Box<RawValue>>>("observe_all", &params).await {
                Ok(entries) if entries.len() == part.len() => entries,
                Ok(entries) => {
                    let error = self.broken(format!(
                        "it answered `observe_all` of {} jobs with {} observations",
                        part.len(),
                        entries.len()
                    ));
                    observations.extend(vec![Err(error); part.len()]);
                    continue;
                }
                Err(error) => {
                    observations.extend(vec![Err(error); part.len()]);
                    continue;
                }
            };
            observations.extend(entries.iter().map(|entry| self.read_entry(entry)));
        }
        observations
    }

    fn read_entry(&self, entry: &RawValue) -> Result<Observation> {
        if let Ok(PollFault { error }) = serde_json::from_str::<PollFault>(entry.get()) {
            return Err(error.into_error(Error::unavailable, |text| self.clean(text)));
        }
        let mut observation: Observation = from_json(entry.get().as_bytes())
            .map_err(|e| self.broken(format!("an observation is invalid: {}", one_line(&e.to_string()))))?;
        observation.message = observation.message.map(|message| one_line(&message));
        Ok(observation)
    }
}
