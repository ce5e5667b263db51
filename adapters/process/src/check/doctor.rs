//! The check-up of a program and of its engine. It must not change anything.

use taskbridge_sdk::{Checkup, Finding, ToolTarget, async_trait};

use crate::core::Core;
use crate::protocol::CheckUpParams;

#[async_trait]
impl Checkup for Core {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        match self.call::<Vec<Finding>>("check_up", &CheckUpParams { tools: tools.to_vec() }).await {
            Ok(findings) => findings,
            Err(error) => {
                let fix = "read the lines of this backend in the server's log, and run the program by itself";
                vec![Finding::fault("program", error.to_string(), fix)]
            }
        }
    }
}
