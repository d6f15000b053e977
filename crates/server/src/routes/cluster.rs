//! `/cluster`: which nodes take part, which one leads, and what waits.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use mainspring_api::cluster::{Cluster, ClusterMember, ClusterQueue, ClusterService};
use mainspring_core::Micros;
use mainspring_core::time::rfc3339;
use mainspring_engine::{CoordinationHealth, LEADERSHIP};
use mainspring_store::MemberRow;
use utoipa_axum::routes;
use uuid::Uuid;

use super::{pauses, pools};
use crate::auth::access::{Access, Routes};
use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::problem::Problem;
use crate::state::ApiState;

/// A node that was silent for longer is shown as gone. Takeovers are decided elsewhere.
const SILENT_AFTER: Micros = 10_000_000;

pub(crate) fn register(routes: &mut Routes) {
    routes.at(Access::Anywhere(Role::Viewer), routes!(show));
}

/// Show the nodes of the cluster, its leader, its queues and pools
#[utoipa::path(get, path = "/cluster", tag = "cluster", responses((status = 200, body = Cluster)))]
pub(crate) async fn show(State(state): State<ApiState>, caller: Caller) -> Result<Json<Cluster>, Problem> {
    let client = state.client();
    let store = client.store();
    let term = store.term(LEADERSHIP).await?;
    let leader = term.as_ref().filter(|term| !term.released).map(|term| term.node);
    let mut workers: BTreeMap<Uuid, Vec<String>> = BTreeMap::new();
    for session in store.live_sessions().await? {
        workers.entry(session.node).or_default().push(session.worker);
    }
    let present = client.members_present();
    let now = client.now();
    let shown = |row: MemberRow| ClusterMember {
        alive: now - row.beat_at < SILENT_AFTER,
        in_etcd: present.as_ref().map(|nodes| nodes.contains(&row.node)),
        leads: leader == Some(row.node),
        workers: workers.get(&row.node).cloned().unwrap_or_default(),
        node: row.node.to_string(),
        name: row.name,
        address: row.address,
        roles: row.roles.split(',').filter(|role| !role.is_empty()).map(str::to_owned).collect(),
        version: row.version,
        since: rfc3339(row.started_at),
        last_heartbeat: rfc3339(row.beat_at),
    };
    let members = store.members().await?.into_iter().map(shown).collect();
    let seen = caller.sees();
    let is_seen = |namespace: &String| seen.as_ref().is_none_or(|seen| seen.contains(namespace));
    let queues = store.ready_by_queue().await?.into_iter().filter(|(namespace, _, _)| is_seen(namespace));
    Ok(Json(Cluster {
        leader: leader.map(|node| node.to_string()),
        epoch: term.map_or(0, |term| term.epoch),
        members,
        queues: queues.map(|(namespace, queue, ready)| ClusterQueue { namespace, queue, ready }).collect(),
        pools: pools::seen(&state, seen.as_deref()).await?,
        pauses: pauses::seen(&state, seen.as_deref()).await?,
        coordination: service(client.coordination(), client.coordination_health(), "nodes coordinate by it"),
        redis: client.redis_health().map(|health| service("redis", health, "it carries wake-ups and events")),
    }))
}

fn service(kind: &str, health: CoordinationHealth, message: &str) -> ClusterService {
    let (status, message) = match health {
        CoordinationHealth::Healthy => ("healthy", message.to_owned()),
        CoordinationHealth::Degraded(cause) => ("degraded", format!("the database goes on alone: {cause}")),
    };
    ClusterService { kind: kind.to_owned(), status: status.to_owned(), message }
}
