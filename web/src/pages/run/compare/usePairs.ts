// Votes are shown at once and saved in sequence. An undo waits for the vote that it takes back.
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { keys } from "@/api/keys";
import { ApiError } from "@/api/problems";
import { notifyError } from "@/parts/notify";
import { compareTexts } from "@/texts/runs";
import { castVote, fetchPairs, type Run, undoVote } from "../queries";
import {
  dropped,
  EMPTY,
  type Judged,
  judge,
  keyOf,
  MIN_WAITING,
  type Pair,
  type PairQueue,
  progressOf,
  received,
  requeued,
  undo,
  type Verdict,
  voteOf,
} from "./pair-queue";

const PAIRS_PER_REQUEST = 16;

export interface Pairs {
  waiting: readonly Pair[];
  progress: { judged: number; total: number };
  canUndo: boolean;
  isLoading: boolean;
  error: unknown;
  judge: (verdict: Verdict) => void;
  undo: () => void;
  retry: () => void;
}

export function usePairs(run: Run, step: string | undefined): Pairs {
  const client = useQueryClient();
  const [queue, setQueue] = useState<PairQueue>(EMPTY);
  const [isLoading, setLoading] = useState(true);
  const [error, setError] = useState<unknown>(null);
  const latest = useRef(queue);
  /** Saved votes, by pair. */
  const saved = useRef(new Map<string, string>());
  const line = useRef<Promise<void>>(Promise.resolve());
  /** Number of queued votes and undos, and of finished ones. */
  const sent = useRef({ all: 0, ended: 0 });
  const isRequesting = useRef(false);
  /** The server had no pair that this page does not know. */
  const isDry = useRef(false);

  const change = useCallback((next: (queue: PairQueue) => PairQueue) => {
    latest.current = next(latest.current);
    setQueue(latest.current);
  }, []);
  const load = useCallback(async () => {
    if (isRequesting.current) return;
    isRequesting.current = true;
    const { all, ended } = sent.current;
    try {
      const found = await fetchPairs(run.id, step, PAIRS_PER_REQUEST);
      const before = latest.current.waiting.length;
      // While a vote is being saved, the server may or may not have counted it.
      const isCounted = all === ended && all === sent.current.all;
      change((now) => received(now, found, isCounted ? saved.current.size : undefined));
      isDry.current = latest.current.waiting.length === before;
      setError(null);
    } catch (refusal) {
      setError(refusal);
    } finally {
      isRequesting.current = false;
      setLoading(false);
    }
  }, [run.id, step, change]);
  const enqueue = useCallback((work: () => Promise<void>) => {
    sent.current.all += 1;
    line.current = line.current.then(work).finally(() => (sent.current.ended += 1));
  }, []);
  const refresh = useCallback(() => {
    // Other data on the page, such as the winners, is older than this vote and is refetched.
    for (const queryKey of [keys.runTree(run.id), keys.runWinners(run.id), keys.runCandidates(run.id)])
      void client.invalidateQueries({ queryKey });
  }, [client, run.id]);

  const save = useCallback(
    async (one: Judged) => {
      try {
        saved.current.set(keyOf(one.pair), (await castVote(run.id, voteOf(one))).id);
        refresh();
      } catch (refusal) {
        const isRefused =
          refusal instanceof ApiError && refusal.status >= 400 && refusal.status < 500 && refusal.status !== 429;
        change((now) => (isRefused ? dropped(now, one.pair) : requeued(now, one.pair)));
        void notifyError(refusal, isRefused ? undefined : { description: compareTexts.failed });
      }
    },
    [run.id, change, refresh],
  );
  const takeBack = useCallback(
    async (one: Judged) => {
      const vote = saved.current.get(keyOf(one.pair));
      if (vote === undefined) return;
      try {
        await undoVote(run.id, vote);
        saved.current.delete(keyOf(one.pair));
        refresh();
      } catch (refusal) {
        void notifyError(refusal);
      }
    },
    [run.id, refresh],
  );

  const onJudge = useCallback(
    (verdict: Verdict) => {
      const before = latest.current.judged.length;
      change((now) => judge(now, verdict));
      const one = latest.current.judged.at(-1);
      if (one !== undefined && latest.current.judged.length > before) enqueue(() => save(one));
    },
    [change, enqueue, save],
  );
  const onUndo = useCallback(() => {
    const one = latest.current.judged.at(-1);
    if (one === undefined) return;
    change(undo);
    enqueue(() => takeBack(one));
  }, [change, enqueue, takeBack]);

  // New candidates of the run create new pairs.
  const candidates = run.steps.map((each) => each.active).join(" ");
  useEffect(() => {
    isDry.current = false;
    void load();
  }, [load, candidates]);
  useEffect(() => {
    if (queue.waiting.length < MIN_WAITING && !isDry.current) void load();
  }, [load, queue.waiting.length]);

  return {
    waiting: queue.waiting,
    progress: progressOf(queue),
    canUndo: queue.judged.length > 0,
    isLoading,
    error,
    judge: onJudge,
    undo: onUndo,
    retry: () => void load(),
  };
}
