import { useMemo, useState } from "react";

export interface Selection<Row> {
  ids: ReadonlySet<string>;
  /** The selected rows that are in the list, in their current state. */
  jobs: Row[];
  /** Whether all rows show boxes: something is selected, or the user is about to select. */
  isOn: boolean;
  start: () => void;
  toggle: (id: string) => void;
  selectAll: () => void;
  clear: () => void;
}

export function useSelection<Row extends { id: string }>(listed: readonly Row[]): Selection<Row> {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const [isStarted, setStarted] = useState(false);
  const jobs = useMemo(() => (ids.size === 0 ? [] : listed.filter((job) => ids.has(job.id))), [ids, listed]);
  return {
    // Rows that left the list, deleted or filtered out, are no longer selected.
    ids: useMemo(() => new Set(jobs.map((job) => job.id)), [jobs]),
    jobs,
    isOn: isStarted || jobs.length > 0,
    start: () => setStarted(true),
    toggle: (id) =>
      setIds((now) => {
        const next = new Set(now);
        if (!next.delete(id)) next.add(id);
        return next;
      }),
    selectAll: () => setIds(new Set(listed.map((job) => job.id))),
    clear: () => {
      setStarted(false);
      setIds(new Set());
    },
  };
}
