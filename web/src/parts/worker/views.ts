// The filters of the list of workers, as they are in the URL.
export const WORKER_VIEWS = ["live", "busy", "idle", "silent", "all"] as const;
export type WorkerView = (typeof WORKER_VIEWS)[number];

export interface WorkersSearch {
  /** The live ones where it is left out. */
  view?: WorkerView;
  /** Part of an id, a display name or a fleet. */
  q?: string;
}
