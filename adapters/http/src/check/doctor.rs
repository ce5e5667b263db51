//! What `taskbridge doctor` finds: whether the engine is reachable, the credentials, and the targets. It must
//! not change anything.

use taskbridge_sdk::{Checkup, Error, ErrorKind, Finding, Result, ToolTarget, async_trait};

use crate::config::Target;
use crate::core::Http;
use crate::driver::auth::By;
use crate::driver::error::reply_error;
use crate::driver::reply::Reply;
use crate::language::Scope;
use crate::submit::scope::{render_target, start_scope};

#[async_trait]
impl Checkup for Http {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let credentials = match &self.config.doctor.credentials {
            Some(request) => self.call(request, &self.base_scope(), &[], By::Own).await,
            None => {
                let says = "not checked: the backend has no `doctor.credentials`";
                findings.push(Finding::warning(
                    "credentials",
                    says,
                    "add a request that reads something harmless",
                ));
                return findings;
            }
        };
        let checked = credentials
            .map_err(|e| e.of_read("doctor"))
            .and_then(|reply| self.expect_success("doctor", reply, &self.base_scope()));
        match checked {
            Ok(_) => findings.push(Finding::ok("credentials", format!("{} accepts them", self.identity))),
            Err(error) => {
                findings.push(fault("credentials".to_owned(), &error));
                return findings;
            }
        }
        for tool in tools {
            findings.extend(self.check_tool(tool).await);
        }
        findings
    }
}

impl Http {
    /// Checks the target of a tool. `None` if nothing can be checked.
    async fn check_tool(&self, tool: &ToolTarget) -> Option<Finding> {
        let table = self.config.doctor.tool.as_ref()?;
        let what = format!("tool `{}`", tool.tool);
        let target: Target = match tool.parse() {
            Ok(target) => target,
            Err(finding) => return Some(finding),
        };
        let scope = start_scope(&self.config, &Default::default(), serde_json::json!({}));
        // A target that depends on arguments is known at the call.
        let target = render_target(&self.config, &target, &scope).ok()?;
        let scope = scope.with("target", target);
        let reply = match self.call(&table.request, &scope, &[], By::Own).await {
            Ok(reply) => reply,
            Err(error) => return Some(fault(what, &error.of_read("doctor"))),
        };
        Some(match self.judge(table, &reply, &scope) {
            Ok(None) => Finding::ok(what, "the engine has its target"),
            Ok(Some((says, fix))) => Finding::fault(what, says, fix),
            Err(error) => fault(what, &error),
        })
    }

    /// Returns what is wrong with a target, and how to fix it.
    fn judge(
        &self,
        table: &crate::config::DoctorTool,
        reply: &Reply,
        scope: &Scope,
    ) -> Result<Option<(String, String)>> {
        let reply_scope = reply.scope(scope.clone());
        let unreadable = |e: String| Error::unavailable(format!("doctor: the reply cannot be read: {e}"));
        if !reply.is_success() {
            return Err(reply_error(&self.config, "doctor", reply, scope, ErrorKind::Unavailable));
        }
        match &table.wrong {
            Some(wrong) if wrong.is_true(&reply_scope).map_err(unreadable)? => {
                let text = |template: &Option<crate::language::Template>, default: &str| match template {
                    Some(template) => template.text(&reply_scope).map_err(unreadable),
                    None => Ok(default.to_owned()),
                };
                let says = text(&table.says, "the engine reports that its target will not work")?;
                Ok(Some((says, text(&table.fix, "correct it in the engine, or change the tool's target")?)))
            }
            _ => Ok(None),
        }
    }
}

/// Returns the fault of an error, with what to do about it.
fn fault(what: String, error: &Error) -> Finding {
    let fix = match error.kind() {
        ErrorKind::Denied => "check `auth`, and the permissions of that account in the engine",
        ErrorKind::Rejected => "check that the tool's target exists in the engine, and that `base` is right",
        ErrorKind::Limited { .. } => "wait, and try again",
        _ => "check `base`, the network, and that the engine runs",
    };
    Finding::fault(what, error.to_string(), fix)
}
