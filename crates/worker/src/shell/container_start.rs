//! Starts a script in its container image.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;

use mainspring_core::work::{Assignment, Failure, OrderAction};
use mainspring_core::workflow::Container;
use tokio::process::{Child, Command};

use super::command::{Workbench, has_files};
use super::launch::{explain, refused, shown};
use super::place::Place;
use super::script::Script;
use super::{container, env_file, interpreter};

impl Workbench {
    /// Starts the engine that runs the script in its image. Nothing of this machine's environment goes along.
    pub(super) fn start_container(
        &self,
        assignment: &Assignment,
        place: &mut Place,
        script: &Script<'_>,
        container: &Container,
    ) -> Result<Child, Failure> {
        let engine = self.engine.as_deref().ok_or_else(container::missing)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let worker = self.root_path.file_name().unwrap_or_default().to_string_lossy();
        let order = &assignment.order;
        let (OrderAction::Run { cwd, .. } | OrderAction::Steps { cwd, .. }) = &order.action else {
            return Err(container::missing());
        };
        let files = place.directory().map(Path::to_owned);
        let from_files = env_file::read_all(files.as_deref(), &order.process.env_files)?;
        let variables = self.environment(assignment, &from_files, Path::new(container::OUTPUT))?;
        let mut variables: Vec<(OsString, OsString)> = variables
            .into_iter()
            .skip(self.environment.len())
            .map(|(name, value)| (name.to_owned(), value.into_owned()))
            .collect();
        if has_files(order) {
            variables.push(("MAINSPRING_FILES".into(), container::WORK.into()));
        }
        if let Some(step) = &script.step {
            variables.extend(step.env.iter().map(|(name, value)| (name.into(), value.into())));
            variables.push(("MAINSPRING_STEP".into(), step.name.into()));
        }
        let boxed = container::Box {
            name: format!("{worker}-{number}"),
            container,
            limits: &order.limits,
            root: &self.root_path,
            working: &place.working,
            output: &place.output,
            cwd: script.step.and_then(|step| step.cwd).or(cwd.as_deref()),
        };
        let (mut words, own) = boxed.arguments(&variables)?;
        match (script.text.is_empty(), script.shell) {
            (true, _) => words.extend(container.command.iter().map(OsString::from)),
            (false, Some("bash")) => words.extend(["bash", "-eo", "pipefail", "-c", script.text].map(OsString::from)),
            (false, None | Some("sh")) => words.extend(["sh", "-e", "-c", script.text].map(OsString::from)),
            (false, Some(shell)) => {
                let split = interpreter::split(shell)
                    .map_err(|why| refused(format!("the shell `{}` cannot be used: {why}", shown(shell))))?;
                words.extend(split.into_iter().map(OsString::from));
                words.extend(["-c", script.text].map(OsString::from));
            }
        }
        let mut command = Command::new(engine);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        for name in ["XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST", "CONTAINERS_CONF"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.envs(own).args(words).current_dir(&place.working).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| explain(&error, engine, &place.working))?;
        place.container = Some(boxed.name);
        Ok(child)
    }
}
