// Shapes of the answers that pages read, by the names that pages use. They are made from openapi.json (schema.ts).
import type { Schemas } from "./schema";

export interface List<T> {
  items: T[];
  next?: string | null;
  total?: number | null;
}

/** What the description says of states is a closed set; pages compare and show them as words. */
type WithStatus<T> = Omit<T, "status"> & { status: string };

export type Grant = Schemas["Grant"];
export type SessionInfo = Omit<Schemas["SessionInfo"], "grants"> & { grants: Grant[] };
export type RunBrief = Schemas["RunBrief"];
export type Overview = Schemas["Overview"];
export type Run = Omit<WithStatus<Schemas["Run"]>, "trigger"> & { trigger?: { kind?: string; by?: string; scheduled_for?: string } | null };
export type TaskRun = Omit<WithStatus<Schemas["TaskRun"]>, "log_tail"> & { log_tail?: Logs | null };
type RunOverviewShape = Omit<Schemas["RunOverview_Run_TaskRun"], "run" | "items" | "task">;
export type RunOverview = RunOverviewShape & { run: Run; items: { task: number; counts: [string, number][] }[]; task?: TaskRun | null };
export type Graph = Schemas["Graph"];
export type LogEntry = Omit<Schemas["LogEntry"], "stream" | "level"> & { stream: string; level: string };
export type Logs = Omit<Schemas["LogLines"], "items"> & { items: LogEntry[] };
export type Workflow = Schemas["Workflow"];
export type Grid = Schemas["Grid"];
export type Schedule = WithStatus<Schemas["Schedule"]>;
export type Agenda = Schemas["Agenda"];
export type Worker = WithStatus<Schemas["Worker"]>;
export type Pause = Schemas["Pause"];
export type Cluster = Schemas["Cluster"];
export type Job = WithStatus<Schemas["Job"]>;
export type Execution = WithStatus<Schemas["Execution"]>;
export type EventHandler = Schemas["EventHandler"];
export type LetterGroup = Schemas["DlqGroup"];
export type Letter = Schemas["DlqEntry"];
export type LetterBatch = Schemas["DlqBatch"];
export type WaitingLetter = Schemas["DlqQueueItem"];
