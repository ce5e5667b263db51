//! Self-check of this machine for `taskbridge doctor`: whether jobs can be stored and supervised, and whether
//! the programs and folders of targets exist. It must not run any of them.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use taskbridge_sdk::{Checkup, CommandArgument, Finding, ToolTarget, async_trait};

use crate::config::Target;
use crate::core::{Local, run_blocking};

#[async_trait]
impl Checkup for Local {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let (jobs, program) = (self.jobs.clone(), self.program.clone());
        let target_paths: Vec<_> =
            tools.iter().map(|tool| (tool.tool.clone(), self.target_paths(tool))).collect();
        let check = move || {
            let mut findings = vec![check_jobs_folder(&jobs), check_supervisor(&program)];
            findings.extend(target_paths.into_iter().map(|(tool, paths)| {
                let name = format!("tool `{tool}`");
                match paths.map(TargetPaths::check) {
                    Ok(Ok(message)) => Finding::ok(name, message),
                    Ok(Err((message, fix))) => Finding::fault(name, message, fix),
                    Err(finding) => finding,
                }
            }));
            findings
        };
        let disk_fault = |error: taskbridge_sdk::Error| {
            vec![Finding::fault("disk", error.to_string(), "check the machine's log for disk errors")]
        };
        run_blocking(check).await.unwrap_or_else(disk_fault)
    }
}

/// Description of the fault, and how to fix it.
type TargetFault = (String, &'static str);

/// Required locations of a target's program and working directory.
struct TargetPaths {
    /// The program as written in the target, and its possible paths.
    program: (String, Vec<PathBuf>),
    folder: Option<PathBuf>,
}

impl Local {
    /// Returns the locations of a target. Omits those that depend on the arguments of a call.
    fn target_paths(&self, tool: &ToolTarget) -> Result<TargetPaths, Finding> {
        let target: Target = tool.parse()?;
        let setup = &self.setup;
        let program = match target.command.first() {
            Some(CommandArgument::One(program)) => program.clone(),
            Some(CommandArgument::Optional(_)) | None => String::new(),
        };
        let path = target.env.iter().find(|(name, _)| name.as_str() == "PATH").map(|(_, value)| value);
        let path = path.or_else(|| setup.environment.get("PATH")).map_or("", String::as_str);
        let candidates = match &program {
            program if is_template(program) || is_template(path) => Vec::new(),
            program if program.contains('/') => vec![setup.config_dir.join(program)],
            program => path.split(':').map(|folder| Path::new(folder).join(program)).collect(),
        };
        let folder = target.working_dir.map(PathBuf::from).or_else(|| setup.config.working_dir.clone());
        let folder = folder.filter(|folder| !is_template(&folder.to_string_lossy()));
        Ok(TargetPaths {
            program: (program, candidates),
            folder: folder.map(|folder| setup.config_dir.join(folder)),
        })
    }
}

impl TargetPaths {
    fn check(self) -> Result<String, TargetFault> {
        let (program, candidates) = self.program;
        if let Some(folder) = self.folder.filter(|folder| !folder.is_dir()) {
            let message = format!("the working directory {} does not exist", folder.display());
            return Err((message, "create it, or set another `working_dir`"));
        }
        if candidates.is_empty() {
            return Ok(format!("the program {program:?} depends on the call's arguments"));
        }
        match candidates.iter().find(|file| file.is_file() && access(*file, Access::EXEC_OK).is_ok()) {
            Some(file) => Ok(format!("runs {}", file.display())),
            None => {
                let paths: Vec<String> = candidates.iter().map(|file| file.display().to_string()).collect();
                let message = format!("no executable program exists at {}", paths.join(", "));
                Err((message, "install the program, make it executable, or set `PATH` in `env`"))
            }
        }
    }
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn check_jobs_folder(jobs: &Path) -> Finding {
    match access(jobs, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok("folder for jobs", jobs.display().to_string()),
        Err(error) => Finding::fault(
            "folder for jobs",
            format!("{}: {error}", jobs.display()),
            "let the server's user write there, or set another `backends_dir` in [store]",
        ),
    }
}

fn check_supervisor(program: &Path) -> Finding {
    match access(program, Access::EXEC_OK) {
        Ok(()) => Finding::ok("supervisor", program.display().to_string()),
        Err(error) => Finding::fault(
            "supervisor",
            format!("{}: {error}", program.display()),
            "this program supervises jobs: let the server's user execute it",
        ),
    }
}
