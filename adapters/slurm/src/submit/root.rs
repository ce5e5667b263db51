//! Decides where a script runs. A caller's values may select something below the folder that the config
//! names. They must not add a `..` or make the path absolute. Symbolic links in that folder are followed.

use std::path::PathBuf;

use taskbridge_sdk::{Error, Result, TemplateContext, Templates};

use crate::config::Target;
use crate::core::Setup;
use crate::store::disk;
use crate::store::folder::Folder;

/// Returns the folder in which the script of a job runs. `script_chdir` is the script's own `--chdir`.
pub(crate) fn root(
    target: &Target,
    setup: &Setup,
    folder: &Folder,
    script_chdir: Option<String>,
    templates: &Templates,
    context: &TemplateContext,
) -> Result<PathBuf> {
    let chosen = match &target.working_dir {
        Some(template) => Some(render_working_dir(template, templates, context)?),
        None => script_chdir,
    };
    let root = match chosen.map(PathBuf::from).or_else(|| setup.working_dir.clone()) {
        Some(path) => setup.config_dir.join(path),
        None => folder.work(),
    };
    disk::enter_path(&root);
    // The job's user may see a folder that we cannot see.
    let is_hidden = setup.user.is_some()
        && std::fs::metadata(&root).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied);
    if root != folder.work() && !root.is_dir() && !is_hidden {
        return Err(Error::rejected(format!("`working_dir` is {}, which is not a folder", root.display())));
    }
    Ok(root)
}

/// Renders a template. Rejected if an argument makes the path absolute or adds a `..` to it.
fn render_working_dir(template: &str, templates: &Templates, context: &TemplateContext) -> Result<String> {
    const FIELD: &str = "working_dir";
    let path = templates.render_argument(FIELD, template, context)?;
    let config_part =
        templates.render_argument(FIELD, template, &context.with_masked(&['/', '.'])).unwrap_or_default();
    let count_parents = |path: &str| path.split('/').filter(|part| *part == "..").count();
    if count_parents(&path) > count_parents(&config_part) {
        return Err(Error::rejected(format!(
            "`{FIELD}` contains a `..` from an argument: the path must stay in the folder that the config names"
        )));
    }
    if path.starts_with('/') && !config_part.starts_with('/') {
        return Err(Error::rejected(format!(
            "`{FIELD}` is an absolute path that begins with an argument: in the config, begin it with a fixed folder, such as \
             `/data/{{{{ folder }}}}`"
        )));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// No argument leads out of the folder that the config names.
    #[test]
    fn working_dir_argument_stays_in_folder() {
        let templates = Templates::new();
        let path = |template: &str, project: &str| {
            let arguments = json!({"p": project, "o": {"p": project, project: 1}});
            let (server_values, caller_values) = (json!({"job": "/jobs/tb-a"}), json!({"element": project}));
            let context = TemplateContext::new(arguments.as_object().unwrap(), server_values, caller_values);
            render_working_dir(template, &templates, &context).map_err(|e| e.to_string())
        };
        for template in [
            "/home/lab/{{ p }}",
            "{{ p }}",
            "{{ p }}/x",
            "runs/{{ o.p }}",
            "{% if p %}/home/lab/{{ p }}{% endif %}",
            "/home/{{ taskbridge.element }}",
            "/home/{% for name in o %}{{ name }}/{% endfor %}",
            "/home/{{ p | upper }}",
        ] {
            for project in ["../x", "..", "a/../../x", "x/.."] {
                let error = path(template, project).unwrap_err();
                assert!(error.contains("`..`") && !error.contains("/x"), "{template} {project}: {error}");
            }
            assert!(path(template, "a/b.c").is_ok(), "{template}");
        }
        for (template, project) in [("{{ p }}", "/etc"), ("{{ p }}/x", ""), ("{{ o.p }}{{ p }}", "/")] {
            assert!(path(template, project).unwrap_err().contains("absolute"), "{template}");
        }
        for (template, expected) in [
            ("/home/lab/{{ p }}", "/home/lab/a..b"),
            ("../runs/{{ p }}", "../runs/a..b"),
            ("{{ taskbridge.job }}/work", "/jobs/tb-a/work"),
            ("/{{ p }}", "/a..b"),
        ] {
            assert_eq!(path(template, "a..b").as_deref(), Ok(expected));
        }
    }
}
