// Shapes of the answers that pages read. One file, so that a generated client can take its place.
export interface List<T> {
  items: T[];
  next: string | null;
  total?: number | null;
}

export interface Grant {
  namespace: string;
  role: "viewer" | "operator" | "author" | "admin" | "worker";
}
export interface SessionInfo {
  name: string;
  grants: Grant[];
  expires_at: string;
}

export interface RunBrief {
  id: string;
  namespace: string;
  workflow: string;
  version: number;
  status: string;
  open_tasks: number;
  failed_tasks: number;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  progress_at?: string;
}
export interface Overview {
  now: string;
  dead_letters: { namespace: string; workflow: string; task: string | null; error: string | null; count: number; first_seen: string; last_seen: string; run_id: string }[];
  dead_letters_pending: number;
  failed: RunBrief[];
  approvals: { run_id: string; namespace: string; workflow: string; task: string; message: string | null; since: string; until: string | null }[];
  stale: RunBrief[];
  missed: { schedule_id: string; namespace: string; workflow: string; schedule: string; scheduled_for: string; until: string | null; count: number; reason: string | null }[];
  running: RunBrief[];
  running_count: number;
  queues: { namespace: string; queue: string; ready: number; oldest_at: string }[];
  next: { schedule_id: string; namespace: string; workflow: string; schedule: string; fire_at: string }[];
  workers: { active: number; draining: number; slots: number; running: number };
}

export interface Run {
  id: string;
  workflow_id: string;
  workflow: string;
  namespace: string;
  version: number;
  status: string;
  phase: string | null;
  cancelling: boolean;
  timed_out: boolean;
  priority: number;
  generation: number;
  progress?: { ended: number; total: number };
  correlation_id?: string;
  trace_id: string | null;
  inputs?: unknown;
  outputs?: unknown;
  trigger?: { kind?: string; by?: string; scheduled_for?: string } | null;
  reason?: string;
  created_at: string;
  started_at: string | null;
  finished_at?: string | null;
}
export interface RunOverview {
  run: Run;
  now: string;
  seq: number;
  tasks: string[];
  states: string;
  ready: (number | null)[];
  started: (number | null)[];
  finished: (number | null)[];
  attempts: number[];
  items: { task: number; counts: [string, number][] }[];
  earlier: { task: number; attempt: number; started: number | null; finished: number }[];
  actions: { task: string | null; action: string; by: string; reason: string | null; at: string }[];
  first_failure: number | null;
  critical_path: number[];
}
export interface Graph {
  workflow: string;
  version: number;
  nodes: { id: number; task: string; kind: string; stage: string; level: number; rule: string; has_condition: boolean; is_repeated: boolean; queue: string; pool: string | null }[];
  edges: { from: number; to: number }[];
  layout?: { width: number; height: number; box_height: number; x: number[]; y: number[]; w: number[]; bends: number[][] };
}
export interface LogEntry {
  attempt: number;
  timestamp: string;
  stream: string;
  level: string;
  message: string;
  line?: number;
  hit?: boolean;
}
export interface Logs {
  items: LogEntry[];
  after: string;
  next: string | null;
  before?: string | null;
}
export interface TaskRun {
  id: string;
  workflow_run_id: string;
  task_id: string;
  status: string;
  attempt: number;
  max_attempts: number;
  attempts: number;
  retry_eligible: boolean;
  next_retry_at: string | null;
  blocked_by: string[];
  started_at: string | null;
  finished_at?: string | null;
  duration_ms: number | null;
  worker_id: string | null;
  output: unknown;
  exit_code: number | null;
  error: string | null;
  error_stack: string | null;
  attempt_history?: { attempt: number; outcome: string; started_at: string | null; finished_at: string; exit_code: number | null; error: string | null; error_stack: string | null }[];
  logs?: LogEntry[];
  log_tail?: Logs;
  dead_letter_id?: string | null;
}
export interface Workflow {
  id: string;
  name: string;
  title: string | null;
  description: string | null;
  namespace: string;
  version: number;
  schedule_cron: string | null;
  is_active: boolean;
  tags: string[];
  metadata: unknown;
  created_at: string;
  updated_at: string;
  glance?: {
    strip: { id: string; status: string; duration_ms: number | null }[];
    p50_ms: number | null;
    p95_ms: number | null;
    success_rate: number | null;
    next_fire_at: string | null;
    schedules: string[];
  };
}
export interface Grid {
  workflow: string;
  namespace: string;
  versions: { version: number; tasks: string[] }[];
  runs: { id: string; version: number; status: string; created_at: string; duration_ms: number | null; states: string }[];
  next: string | null;
}
export interface Schedule {
  id: string;
  workflow: string;
  namespace: string;
  name: string;
  kind: string;
  schedule: string;
  description?: string;
  timezone?: string;
  status: string;
  next_run: string | null;
  next_fire_at: string | null;
  last_fire_at: string | null;
  fired: number;
  catchup?: string;
  overlap?: string;
  calendar?: string;
  problem?: string;
}
export interface Agenda {
  from: string;
  to: string;
  now: string;
  schedules: { id: string; namespace: string; workflow: string; name: string; schedule: string; description: string | null; timezone: string | null; is_paused: boolean }[];
  fires: { schedule: number; at: string; until?: string; count: number; outcome: string; run_id?: string; reason?: string }[];
  hours: number[];
  is_bucketed: boolean;
}
