//! Behaviour suite of the sdk against both emulators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_sfn::types::StateMachineType;
use serde_json::{Value, json};
use taskbridge_sdk::suite::{
    Claims, DiscoverableTool, Fixture, HookRequest, InjectedFault, LogJob, RefusedJob, RepeatedStart,
    fresh_key,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use crate::harness::proxy::Fault;
use crate::harness::standin::Kind;
use crate::harness::world::{World, start};

/// Account with the machines that the suite needs.
struct Account {
    world: World,
    succeeding_machine: String,
    failing_machine: String,
    waiting_machine: String,
    stepping_machine: String,
    /// Prefix of the names of machines to discover here.
    prefix: String,
    offer_count: AtomicU32,
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
            succeeding_machine: world.machine(pass).await,
            failing_machine: world.machine(fail).await,
            waiting_machine: world.machine(wait).await,
            stepping_machine: world.machine(steps).await,
            world,
            prefix,
            offer_count: AtomicU32::new(0),
        }
    }
}

#[async_trait]
impl Fixture for Account {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SameJob,
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
        faults: &InjectedFault::ALL,
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (start(&self.succeeding_machine, json!({"a": 1})), "all is well".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        start(&self.failing_machine, json!({}))
    }

    fn long_job(&self) -> JobSpec {
        start(&self.waiting_machine, json!({"b": [2, null]}))
    }

    fn unknown_handle(&self) -> JobHandle {
        let machine = self.waiting_machine.replacen(":stateMachine:", ":execution:", 1);
        JobHandle::new(format!("{machine}:{}", fresh_key()))
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["entered Second step", "left Second step", "the execution succeeded"];
        Some(LogJob {
            job: start(&self.stepping_machine, json!({})),
            lines: lines.map(str::to_owned).to_vec(),
        })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = start(&self.succeeding_machine, json!({"much": "x".repeat(262_144)}));
        Some(RefusedJob { job, message: "at most 262144".to_owned() })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(180)
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let tool = format!("{}-{}", self.prefix, self.offer_count.fetch_add(1, Ordering::Relaxed));
        let schema =
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let definition = json!({
            "Comment": format!("Says it again. ```{schema}```"), "StartAt": "Say", "States": {"Say": {"Type": "Pass", "End": true}},
        });
        self.world.create_named(&tool, definition, StateMachineType::Standard, &[]).await;
        Some(DiscoverableTool {
            tool,
            arguments: json!({"text": "said twice"}),
            text: "said twice".to_owned(),
        })
    }

    async fn remove_tool(&self, tool: &str) {
        let arn =
            self.succeeding_machine.rsplit_once(':').map(|(prefix, _)| format!("{prefix}:{tool}")).unwrap();
        self.world.aws.delete_state_machine().state_machine_arn(arn).send().await.unwrap();
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({"state_machine": format!("{}-that-is-not-there", self.succeeding_machine)}))
    }

    fn hook_request(&self, handle: &JobHandle) -> Option<HookRequest> {
        let body = json!({
            "version": "0", "id": "315c1398-40ff-a850-213b-158f73e60175",
            "detail-type": "Step Functions Execution Status Change", "source": "aws.states",
            "detail": {"executionArn": handle.as_str(), "status": "SUCCEEDED"},
        });
        let (header, secret) = ("x-taskbridge-secret".to_owned(), "s3cret-0".to_owned());
        let headers =
            vec![(header.clone(), secret), ("content-type".to_owned(), "application/json".to_owned())];
        Some(HookRequest {
            headers,
            body: body.to_string().into_bytes(),
            proof_header: header,
            signs_body: false,
        })
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        let mut starts = 0;
        for machine in
            [&self.succeeding_machine, &self.failing_machine, &self.waiting_machine, &self.stepping_machine]
        {
            let mut pages =
                self.world.aws.list_executions().state_machine_arn(machine).into_paginator().send();
            while let Some(page) = pages.next().await {
                starts += page
                    .unwrap()
                    .executions
                    .iter()
                    .filter(|execution| execution.name == key.as_str())
                    .count();
            }
        }
        starts
    }

    async fn inject(&self, injected_fault: InjectedFault) {
        let (operation, fault) = match injected_fault {
            InjectedFault::StartReplyLost => ("StartExecution", Fault::ReplyLost),
            InjectedFault::StartUnavailable => {
                ("StartExecution", Fault::ErrorResponse(503, "ServiceUnavailable", "busy"))
            }
            InjectedFault::StartLimited => {
                ("StartExecution", Fault::ErrorResponse(400, "ThrottlingException", "Rate exceeded"))
            }
            InjectedFault::DiscoveryUnavailable | InjectedFault::CheckupUnavailable => {
                ("ListStateMachines", Fault::ErrorResponse(503, "ServiceUnavailable", "busy"))
            }
            InjectedFault::JobUnlisted => (
                "DescribeExecution",
                Fault::ErrorResponse(400, "ExecutionDoesNotExist", "Execution Does Not Exist"),
            ),
            InjectedFault::PollUnavailable => {
                ("DescribeExecution", Fault::ErrorResponse(503, "ServiceUnavailable", "busy"))
            }
        };
        self.world.proxy.inject(operation, fault);
    }
}

mod localstack {
    taskbridge_sdk::behaviour_suite!(super::Account::at(crate::harness::standin::Kind::LocalStack).await);
}

mod ministack {
    taskbridge_sdk::behaviour_suite!(super::Account::at(crate::harness::standin::Kind::MiniStack).await);
}
