//! The query of a subscription, and its authorisation.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use mainspring_core::RunId;
use mainspring_engine::{LiveUpdate, MessageType, RunSubscription, WideFilter, WideSubscription};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::auth::caller::Caller;
use crate::body::Name;
use crate::problem::Problem;
use crate::state::ApiState;

/// What is followed: one run by its numbers, or what changes within a filter.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SubscriptionQuery {
    /// A run: its numbered events, each once and in order
    #[param(value_type = Option<String>)]
    pub(super) run: Option<Uuid>,
    /// Of that run, only events behind this number
    #[param(default = 0)]
    pub(super) seq: Option<i64>,
    /// Only runs of this namespace
    pub(super) namespace: Option<Name>,
    /// Only runs of the workflow of this name
    pub(super) workflow: Option<Name>,
    /// Types of messages, separated by commas: workflow_status, task_status, worker_heartbeat, log. All but log unless given
    pub(super) types: Option<String>,
}

/// An item of a subscription: a message, or the reason for its end.
pub(super) type Update = (Option<RunId>, Result<LiveUpdate, mainspring_store::Error>);
pub(super) type Updates = BoxStream<'static, Update>;

impl SubscriptionQuery {
    /// Authorises the caller and subscribes.
    pub(super) async fn subscribe(&self, state: &ApiState, caller: &Caller) -> Result<Updates, Problem> {
        let types = self.types()?;
        let live = state.client().live();
        match self.run {
            Some(run) => {
                if self.namespace.is_some() || self.workflow.is_some() {
                    return Err(Problem::malformed(
                        "`run` names one run: leave out `namespace` and `workflow`, or leave out `run`",
                    ));
                }
                let after = self.seq.unwrap_or(0);
                if after < 0 {
                    return Err(Problem::malformed("`seq` is the last number that was seen: a number from 0"));
                }
                let summary = state.client().store().run_summary(run).await?;
                caller.enter(&summary.namespace)?;
                if after > summary.seq {
                    return Err(Problem::malformed(format!(
                        "`seq` is {after}, but the last event of the run is {}: begin at 0",
                        summary.seq
                    )));
                }
                Ok(of_run(live.subscribe_to_run(run, after, types).await?))
            }
            None => {
                if self.seq.is_some() {
                    return Err(Problem::malformed("`seq` is a number within a run: say which `run`"));
                }
                let namespaces = caller.sees_of(self.namespace.as_ref().map(Name::as_str))?;
                let workflow = self.workflow.as_ref().map(|name| name.as_str().to_owned());
                Ok(of_many(live.subscribe(WideFilter { namespaces, workflow, types }).await?))
            }
        }
    }

    /// Log lines are many, so they are sent only to subscribers that name them.
    fn types(&self) -> Result<Vec<MessageType>, Problem> {
        let Some(types) = &self.types else {
            return Ok(vec![MessageType::WorkflowStatus, MessageType::TaskStatus, MessageType::WorkerHeartbeat]);
        };
        let words = types.split(',').map(str::trim).filter(|word| !word.is_empty());
        let types: Vec<MessageType> =
            words.map(|word| word.parse().map_err(Problem::malformed)).collect::<Result<_, _>>()?;
        if types.is_empty() {
            return Err(Problem::malformed("`types` names nothing: leave it out for all but log lines"));
        }
        Ok(types)
    }
}

fn of_run(subscription: RunSubscription) -> Updates {
    let run = subscription.run();
    futures_util::stream::unfold(Some(subscription), move |subscription| async move {
        let mut subscription = subscription?;
        let update = subscription.next().await;
        let goes_on = matches!(update, Ok(LiveUpdate::Message(_)));
        Some(((Some(run), update), goes_on.then_some(subscription)))
    })
    .boxed()
}

fn of_many(subscription: WideSubscription) -> Updates {
    futures_util::stream::unfold(Some(subscription), move |subscription| async move {
        let mut subscription = subscription?;
        let update = subscription.next().await;
        let goes_on = matches!(update, Ok(LiveUpdate::Message(_)));
        Some(((None, update), goes_on.then_some(subscription)))
    })
    .boxed()
}
