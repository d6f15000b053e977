//! Messages of `/ws/updates` and `/events/stream`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::runs::{LogLevel, LogStream, RunStatus, TaskStatus};
use crate::words::closed_set;
use crate::workers::WorkerStatus;

closed_set! {
    /// What a message tells. `resync`: some were left out, and what follows is a new snapshot.
    MessageType {
        WorkflowStatus = "workflow_status",
        TaskStatus = "task_status",
        WorkerHeartbeat = "worker_heartbeat",
        Log = "log",
        Resync = "resync",
    }
}

/// One message. What `payload` holds is said by `type`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LiveMessage {
    pub r#type: MessageType,
    /// `RunMessage`, `TaskMessage`, `LogMessage`, `HeartbeatMessage` or `ResyncMessage`.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// The run, if it is about one.
    pub run: Option<Uuid>,
    /// Its number within the run; snapshots, beginnings of attempts and log lines have none.
    pub seq: Option<i64>,
}

/// `workflow_status`: a run as it stands (`snapshot`), or what happened to it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunMessage {
    pub workflow_run_id: Option<Uuid>,
    pub workflow: Option<String>,
    pub namespace: Option<String>,
    pub status: Option<RunStatus>,
    #[serde(default)]
    pub snapshot: bool,
    /// In a snapshot: the last number that it covers.
    pub through: Option<i64>,
    pub open_tasks: Option<i64>,
    pub at: Option<String>,
}

/// `task_status`: an attempt began, ended, or the task run ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TaskMessage {
    pub task_id: Option<String>,
    pub status: Option<TaskStatus>,
    pub attempt: Option<i32>,
    pub session_id: Option<i64>,
    pub exit_code: Option<i32>,
    pub error: Option<String>,
    pub at: Option<String>,
}

/// `log`: one line that a task printed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogMessage {
    pub task_id: Option<String>,
    pub attempt: i32,
    pub chunk: i32,
    pub timestamp: String,
    pub stream: LogStream,
    /// `error` for what came on stderr, otherwise `info`
    pub level: LogLevel,
    pub message: String,
}

/// `worker_heartbeat`: a worker lives.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatMessage {
    pub id: String,
    pub session_id: i64,
    pub hostname: String,
    pub last_heartbeat: String,
    pub status: WorkerStatus,
    pub queues: Vec<String>,
    pub labels: Vec<String>,
    pub slots: i32,
}

/// `resync`: why messages were left out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResyncMessage {
    pub reason: String,
}
