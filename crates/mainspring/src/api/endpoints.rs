//! The servers that a worker talks to, and its token.

use std::path::PathBuf;

use super::profile::{Profile, variable};
use crate::app::App;
use crate::failure::{Failure, Result};

/// Several servers of one cluster.
#[derive(Debug)]
pub(crate) struct Endpoints {
    pub(crate) servers: Vec<String>,
    pub(crate) token: String,
    pub(crate) authority: Option<PathBuf>,
}

impl Endpoints {
    /// `--server URL[,URL…]`, MAINSPRING_SERVER or a profile; MAINSPRING_TOKEN or that of the profile.
    pub(crate) fn choose(app: &App<'_>) -> Result<Self> {
        let profile = Profile::load(app.profile.as_deref())?;
        let servers = app.server.clone().or_else(|| variable("MAINSPRING_SERVER")).or_else(|| profile.server.clone());
        let servers: Vec<String> = servers
            .iter()
            .flat_map(|servers| servers.split(','))
            .map(|server| server.trim().to_owned())
            .filter(|server| !server.is_empty())
            .collect();
        if servers.is_empty() {
            return Err(Failure::bad_input("no server was named")
                .remedy("give --server http://HOST:8080[,http://OTHER:8080], or set MAINSPRING_SERVER"));
        }
        let token = match variable("MAINSPRING_TOKEN") {
            Some(token) => Some(token),
            None => profile.token()?,
        };
        let Some(token) = token else {
            return Err(Failure::bad_input("a worker needs a token")
                .remedy("make one with `mainspring tokens create --role worker`, and set MAINSPRING_TOKEN"));
        };
        Ok(Self { servers, token, authority: profile.authority.clone() })
    }
}
