//! Scripts inside container images, by the command line of an engine: `docker` or `podman`.
//!
//! The engine's command is an ordinary process of the task: its output is the log, its exit code that of the script, and
//! TERM goes through it. The container itself lives outside of its process group. So it has a name that is known before
//! it starts, and is removed by that name when its attempt was ended from outside; the watchdog does the same when the
//! worker dies, and looks for the label besides, in case the worker died before it could name the container.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mainspring_core::work::Failure;
use mainspring_core::workflow::{Container, Limits};

/// Where a container sees the folder of its task, and the file of its output.
pub(super) const WORK: &str = "/mainspring/work";
pub(super) const OUTPUT: &str = "/mainspring/output";

/// The label of all containers of a worker. Its value is the directory of the worker.
pub(crate) const LABEL: &str = "mainspring.worker";

/// An engine that does not remove a container within this time is left to the watchdog.
const REMOVAL: Duration = Duration::from_secs(30);

/// What the engine itself reads; a task that sets one of these sets it in the container only.
const OF_ENGINE: [&str; 8] = [
    "PATH",
    "HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "CONTAINER_HOST",
    "REGISTRY_AUTH_FILE",
];

/// Finds the engine: the one of the setting, or the first usual one in `PATH`. The setting `none` means no engine.
pub fn find_engine(setting: Option<&str>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let search = |name: &str| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    match setting {
        Some("none") => None,
        Some(name) if name.contains('/') => Some(PathBuf::from(name)).filter(|file| file.is_file()),
        Some(name) => search(name),
        None => search("docker").or_else(|| search("podman")),
    }
}

/// The container of one script.
#[derive(Debug)]
pub(super) struct Box<'a> {
    pub(super) name: String,
    pub(super) container: &'a Container,
    pub(super) limits: &'a Limits,
    /// The worker's directory.
    pub(super) root: &'a Path,
    /// The folder of the task on this machine.
    pub(super) working: &'a Path,
    pub(super) output: &'a Path,
    pub(super) cwd: Option<&'a str>,
}

/// Names and values of environment variables.
type Variables = Vec<(OsString, OsString)>;

impl Box<'_> {
    /// The arguments of the engine, up to the image; and the variables of its own process.
    pub(super) fn arguments(&self, variables: &[(OsString, OsString)]) -> Result<(Vec<OsString>, Variables), Failure> {
        let mut words = ["run", "--rm", "--log-driver", "none", "--stop-timeout", "0"].map(OsString::from).to_vec();
        let mut add = |flag: &str, value: OsString| words.extend([OsString::from(flag), value]);
        add("--name", self.name.clone().into());
        add("--label", joined(&[LABEL.as_ref(), "=".as_ref(), self.root.as_os_str()]));
        add("--volume", joined(&[self.working.as_os_str(), ":".as_ref(), WORK.as_ref()]));
        add("--volume", joined(&[self.output.as_os_str(), ":".as_ref(), OUTPUT.as_ref()]));
        add("--workdir", self.inside().into());
        add("--pull", self.container.pull.word().into());
        if let Some(user) = &self.container.user {
            add("--user", user.into());
        }
        if let Some(network) = &self.container.network {
            add("--network", network.into());
        }
        if let Some(bytes) = self.container.memory_bytes.or(self.limits.memory_bytes) {
            add("--memory", bytes.to_string().into());
        }
        if let Some(millis) = self.container.cpu_millis {
            add("--cpus", format!("{}.{:03}", millis / 1000, millis % 1000).into());
        }
        if let Some(files) = self.limits.files {
            add("--ulimit", format!("nofile={files}:{files}").into());
        }
        if let Some(ms) = self.limits.cpu_ms {
            let seconds = ms.div_ceil(1000);
            add("--ulimit", format!("cpu={seconds}:{seconds}").into());
        }
        let mut own = Vec::new();
        for (name, value) in variables {
            if OF_ENGINE.iter().any(|engines| name == engines) {
                add("--env", joined(&[name, "=".as_ref(), value]));
            } else {
                // Only the name is given: every user can read the values on a command line.
                add("--env", name.clone());
                own.push((name.clone(), value.clone()));
            }
        }
        self.prepare().map_err(|error| refused(format!("cannot prepare the folder of the container: {error}")))?;
        own.extend(self.credentials().map_err(|error| refused(format!("cannot write the credentials: {error}")))?);
        words.push(self.container.image.clone().into());
        Ok((words, own))
    }

    /// The working directory inside the container.
    fn inside(&self) -> String {
        match self.cwd {
            Some(cwd) if cwd.starts_with('/') => cwd.to_owned(),
            Some(cwd) if !cwd.is_empty() => format!("{WORK}/{cwd}"),
            _ => WORK.to_owned(),
        }
    }

    /// What is mounted must exist; another user than the worker's must be able to write it. The folder above is closed to
    /// every other user of this machine.
    fn prepare(&self) -> io::Result<()> {
        std::fs::OpenOptions::new().create(true).append(true).open(self.output)?;
        if self.container.user.is_some() {
            std::fs::set_permissions(self.working, std::fs::Permissions::from_mode(0o777))?;
            std::fs::set_permissions(self.output, std::fs::Permissions::from_mode(0o666))?;
        }
        Ok(())
    }

    /// A file in the form that both engines read, named to each in its own way.
    fn credentials(&self) -> io::Result<Vec<(OsString, OsString)>> {
        let (Some(username), Some(password)) = (&self.container.username, &self.container.password) else {
            return Ok(Vec::new());
        };
        let folder = self.output.with_extension("registry");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("config.json");
        let auth = base64(format!("{username}:{password}").as_bytes());
        let content = serde_json::json!({"auths": {registry(&self.container.image): {"auth": auth}}});
        std::fs::write(&file, content.to_string())?;
        Ok(vec![("DOCKER_CONFIG".into(), folder.into()), ("REGISTRY_AUTH_FILE".into(), file.into())])
    }
}

/// Removes a container that may still run, by force.
pub(super) async fn remove(engine: &Path, name: &str) {
    let mut command = tokio::process::Command::new(engine);
    command.args(["rm", "-f", name]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match tokio::time::timeout(REMOVAL, command.status()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(container = name, %error, "cannot remove a container"),
        Err(_) => tracing::warn!(container = name, "the engine does not remove a container"),
    }
}

pub(super) fn missing() -> Failure {
    refused(
        "this worker has no container engine: install podman or docker, or name it in `worker.container_engine`".into(),
    )
}

fn refused(message: String) -> Failure {
    Failure { kind: "container".into(), message, permanent: true, ..Failure::default() }
}

/// The host before the first `/` if it looks like one, else the registry that is meant by plain names.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "docker.io",
    }
}

fn joined(parts: &[&OsStr]) -> OsString {
    parts.iter().copied().collect()
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = (number >> (18 - 6 * place)) & 63;
            text.push(if place <= chunk.len() { char::from(ALPHABET[digit as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_as_registries_want_them() {
        for (plain, encoded) in
            [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("user:pass?", "dXNlcjpwYXNzPw==")]
        {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        for (image, host) in [
            ("debian:12", "docker.io"),
            ("library/debian", "docker.io"),
            ("ghcr.io/a/b:1", "ghcr.io"),
            ("localhost/x", "localhost"),
        ] {
            assert_eq!(registry(image), host, "{image}");
        }
    }
}
