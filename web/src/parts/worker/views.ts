// Filters of the list of workers, in the form of the URL.
export const WORKER_VIEWS = ["live", "busy", "idle", "silent", "all"] as const;
export type WorkerView = (typeof WORKER_VIEWS)[number];

export interface WorkersSearch {
  /** Default: live workers. */
  view?: WorkerView;
  /** Part of an id, a display name or a fleet. */
  q?: string;
}
