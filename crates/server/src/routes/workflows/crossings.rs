//! Definitions that name workflows of other namespaces: the author who stores one needs the rights there that it will use.

use axum::http::StatusCode;
use mainspring_core::Workflow;
use mainspring_engine::not_callable;
use mainspring_store::Error;

use crate::auth::caller::Caller;
use crate::auth::identity::Role;
use crate::problem::Problem;
use crate::state::ApiState;

/// Refuses a workflow that calls or follows what its author could not, unless the other namespace lists this one.
pub(super) async fn check(state: &ApiState, caller: &Caller, workflow: &Workflow) -> Result<(), Problem> {
    for crossing in workflow.crossings() {
        let role = if crossing.follows { Role::Viewer } else { Role::Operator };
        let target = Target { namespace: crossing.namespace, name: crossing.name, pointer: &crossing.pointer };
        check_one(state, caller, &workflow.namespace, role, &target).await?;
    }
    Ok(())
}

/// A workflow of another namespace, and where it is named.
pub(crate) struct Target<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) pointer: &'a str,
}

/// Refuses a definition of `own` that uses the target, unless the caller has the role there or the target lets `own` use it.
pub(crate) async fn check_one(
    state: &ApiState,
    caller: &Caller,
    own: &str,
    role: Role,
    target: &Target<'_>,
) -> Result<(), Problem> {
    if caller.identity().has_in(role, target.namespace) {
        return Ok(());
    }
    match state.client().latest(target.namespace, target.name).await {
        Ok(spec) if spec.workflow.may_be_called_from(own) => Ok(()),
        Ok(_) | Err(Error::NotFound { .. }) => {
            let why = not_callable(target.namespace, target.name, own);
            let said = format!("{}: {why}, or this token gets the role {role} there", target.pointer);
            Err(Problem::new(StatusCode::FORBIDDEN, said))
        }
        Err(error) => Err(error.into()),
    }
}
