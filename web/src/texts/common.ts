import { choose } from "./plurals";

/** Words of the design system. Every page contains them. */
export const commonTexts = {
  required: "required",
  chosen: "chosen",
  justNow: "just now",
  clearSearch: "Clear the search",
  more: "Show more",
  cancel: "Cancel",
  save: "Save",
  done: "Done",
  itsJobs: "Jobs",
  copy: "Copy",
  none: "–",
  /** Processes that can act beside users, as the audit log and histories name them. */
  actors: { operator: "Command line", anonymous: "Not signed in", autoscaler: "Autoscaler" } as Readonly<
    Record<string, string>
  >,
  deletedUser: (end: string) => `Deleted user …${end}`,
  tokens: (amount: string, count: number) => `${amount} ${choose(count, "token")}`,
};
