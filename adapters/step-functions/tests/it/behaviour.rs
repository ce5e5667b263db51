//! Behaviour suite of the sdk against both emulators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_sfn::types::StateMachineType;
use serde_json::{Value, json};
use taskbridge_sdk::suite::{
    Claims, Fixture, Offering, Posted, Printing, Refusal, Repeat, Trouble, fresh_key,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use crate::proxy::Fault;
use crate::standin::Kind;
use crate::world::{World, start};

/// Account with the machines that the suite needs.
struct Account {
    world: World,
    succeeds: String,
    fails: String,
    waits: String,
    steps: String,
    /// Prefix of the names of machines to discover here.
    prefix: String,
    offered: AtomicU32,
}

impl Account {
    async fn at(kind: Kind) -> Self {
        let prefix = format!("suite-{}", &fresh_key().as_str()[3..15]);
        let world =
            World::with(kind, json!({"discover": {"starting_with": prefix}, "hook_secret": "s3cret-0"}))
                .await;
        let pass = json!({"First": {"Type": "Pass", "Result": {"text": "all is well"}, "End": true}});
        let fail = json!({"First": {"Type": "Fail", "Error": "NoPaper", "Cause": "the tray\nis empty"}});
        let wait = json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}});
        let steps = json!({
            "First": {"Type": "Pass", "Next": "Second step"}, "Second step": {"Type": "Pass", "End": true},
        });
        Self {
            succeeds: world.machine(pass).await,
            fails: world.machine(fail).await,
            waits: world.machine(wait).await,
            steps: world.machine(steps).await,
            world,
            prefix,
            offered: AtomicU32::new(0),
        }
    }
}

#[async_trait]
impl Fixture for Account {
    const CLAIMS: Claims = Claims {
        repeat: Repeat::SameJob,
        questions: false,
        notes: false,
        logs: true,
        artifacts: false,
        wakeups: false,
        discovery: true,
        checkup: true,
        hooks: true,
        refuses: true,
        counts_starts: true,
        troubles: &Trouble::ALL,
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeds(&self) -> (JobSpec, String) {
        (start(&self.succeeds, json!({"a": 1})), "all is well".to_owned())
    }

    fn fails(&self) -> JobSpec {
        start(&self.fails, json!({}))
    }

    fn runs_long(&self) -> JobSpec {
        start(&self.waits, json!({"b": [2, null]}))
    }

    fn unknown(&self) -> JobHandle {
        let machine = self.waits.replacen(":stateMachine:", ":execution:", 1);
        JobHandle::new(format!("{machine}:{}", fresh_key()))
    }

    fn prints(&self) -> Option<Printing> {
        let lines = ["entered Second step", "left Second step", "the execution succeeded"];
        Some(Printing { job: start(&self.steps, json!({})), lines: lines.map(str::to_owned).to_vec() })
    }

    fn refused(&self) -> Option<Refusal> {
        let job = start(&self.succeeds, json!({"much": "x".repeat(262_144)}));
        Some(Refusal { job, words: "at most 262144".to_owned() })
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(180)
    }

    async fn offers(&self) -> Option<Offering> {
        let tool = format!("{}-{}", self.prefix, self.offered.fetch_add(1, Ordering::Relaxed));
        let schema =
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let definition = json!({
            "Comment": format!("Says it again. ```{schema}```"), "StartAt": "Say", "States": {"Say": {"Type": "Pass", "End": true}},
        });
        self.world.named(&tool, definition, StateMachineType::Standard, &[]).await;
        Some(Offering { tool, arguments: json!({"text": "said twice"}), text: "said twice".to_owned() })
    }

    async fn withdraws(&self, tool: &str) {
        let arn = self.succeeds.rsplit_once(':').map(|(place, _)| format!("{place}:{tool}")).unwrap();
        self.world.aws.delete_state_machine().state_machine_arn(arn).send().await.unwrap();
    }

    fn missing(&self) -> Option<Value> {
        Some(json!({"state_machine": format!("{}-that-is-not-there", self.succeeds)}))
    }

    fn posts(&self, handle: &JobHandle) -> Option<Posted> {
        let body = json!({
            "version": "0", "id": "315c1398-40ff-a850-213b-158f73e60175",
            "detail-type": "Step Functions Execution Status Change", "source": "aws.states",
            "detail": {"executionArn": handle.as_str(), "status": "SUCCEEDED"},
        });
        let (header, secret) = ("x-taskbridge-secret".to_owned(), "s3cret-0".to_owned());
        let headers =
            vec![(header.clone(), secret), ("content-type".to_owned(), "application/json".to_owned())];
        Some(Posted { headers, body: body.to_string().into_bytes(), proof: header, signs_the_body: false })
    }

    async fn starts(&self, key: &JobKey) -> usize {
        let mut starts = 0;
        for machine in [&self.succeeds, &self.fails, &self.waits, &self.steps] {
            let mut pages =
                self.world.aws.list_executions().state_machine_arn(machine).into_paginator().send();
            while let Some(page) = pages.next().await {
                starts += page.unwrap().executions.iter().filter(|found| found.name == key.as_str()).count();
            }
        }
        starts
    }

    async fn make(&self, trouble: Trouble) {
        let (operation, fault) = match trouble {
            Trouble::StartReplyLost => ("StartExecution", Fault::ReplyLost),
            Trouble::StartUnavailable => {
                ("StartExecution", Fault::Answered(503, "ServiceUnavailable", "busy"))
            }
            Trouble::StartLimited => {
                ("StartExecution", Fault::Answered(400, "ThrottlingException", "Rate exceeded"))
            }
            Trouble::DiscoveryUnavailable | Trouble::CheckupUnavailable => {
                ("ListStateMachines", Fault::Answered(503, "ServiceUnavailable", "busy"))
            }
            Trouble::JobUnlisted => (
                "DescribeExecution",
                Fault::Answered(400, "ExecutionDoesNotExist", "Execution Does Not Exist"),
            ),
            Trouble::LookUnavailable => {
                ("DescribeExecution", Fault::Answered(503, "ServiceUnavailable", "busy"))
            }
        };
        self.world.proxy.make(operation, fault);
    }
}

mod localstack {
    taskbridge_sdk::behaviour_suite!(super::Account::at(crate::standin::Kind::LocalStack).await);
}

mod ministack {
    taskbridge_sdk::behaviour_suite!(super::Account::at(crate::standin::Kind::MiniStack).await);
}
