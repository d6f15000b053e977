// Every page. The server answers exactly these patterns with the document (crates/server/src/ui/files.rs).
import type { Component } from "svelte";

export interface PageRoute {
  name: string;
  pattern: string;
  load: () => Promise<{ default: Component<any> }>;
}

export const ROUTES: PageRoute[] = [
  { name: "now", pattern: "/", load: () => import("../pages/Now.svelte") },
  { name: "workflows", pattern: "/workflows", load: () => import("../pages/Workflows.svelte") },
  { name: "start", pattern: "/w/:namespace/:name/start", load: () => import("../pages/Start.svelte") },
  { name: "workflow", pattern: "/w/:namespace/:name", load: () => import("../pages/Workflow.svelte") },
  { name: "log", pattern: "/r/:id/log", load: () => import("../pages/Log.svelte") },
  { name: "run", pattern: "/r/:id", load: () => import("../pages/Run.svelte") },
  { name: "runs", pattern: "/runs", load: () => import("../pages/Runs.svelte") },
  { name: "letters", pattern: "/dlq", load: () => import("../pages/DeadLetters.svelte") },
  { name: "letters", pattern: "/dlq/:fingerprint", load: () => import("../pages/DeadLetters.svelte") },
  { name: "calendar", pattern: "/calendar", load: () => import("../pages/Calendar.svelte") },
  { name: "jobs", pattern: "/jobs", load: () => import("../pages/Jobs.svelte") },
  { name: "events", pattern: "/events", load: () => import("../pages/Events.svelte") },
  { name: "workers", pattern: "/workers", load: () => import("../pages/Workers.svelte") },
  { name: "admin", pattern: "/admin", load: () => import("../pages/Admin.svelte") },
];
