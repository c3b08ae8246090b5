// Queue of pairs to judge and of judged pairs, so the next pair is ready before it is needed. Pure: each function
// returns a new queue.
import type { Schemas } from "@/api/types";

export type Candidate = Schemas["Candidate"];
export type Pair = readonly [Candidate, Candidate];
export type Verdict = "left" | "right" | "both" | "neither";

export interface Judged {
  pair: Pair;
  verdict: Verdict;
}

export interface PairQueue {
  /** The first pair is shown. */
  waiting: readonly Pair[];
  /** Votes of this session, oldest first. */
  judged: readonly Judged[];
  /** Number of pairs that were judged before this session, and of all pairs. */
  before: number;
  total: number;
}

export const EMPTY: PairQueue = { waiting: [], judged: [], before: 0, total: 0 };
/** The page requests more pairs if fewer than this wait. */
export const MIN_WAITING = 6;

export function keyOf([one, other]: Pair): string {
  return [one.id, other.id].sort().join(" ");
}

/** Height by width of the taller image. undefined if a size is unknown. */
export function tallestOf(pair: Pair): number | undefined {
  const ratios = pair.map(({ file }) => (file?.width && file.height ? file.height / file.width : undefined));
  return ratios.includes(undefined) ? undefined : Math.max(...(ratios as number[]));
}

/**
 * Adds pairs from the server. Pairs that wait or were judged here are left out: the server may not know of them yet.
 * `saved`: votes of this session that the server has counted; undefined if unknown.
 */
export function received(
  queue: PairQueue,
  found: Pick<Schemas["Pairs"], "pairs" | "judged" | "total">,
  saved: number | undefined,
): PairQueue {
  const known = new Set([...queue.waiting, ...queue.judged.map((each) => each.pair)].map(keyOf));
  const fresh: Pair[] = [];
  for (const [one, other] of found.pairs) {
    if (!one || !other || known.has(keyOf([one, other]))) continue;
    known.add(keyOf([one, other]));
    fresh.push([one, other]);
  }
  const before = saved === undefined ? queue.before : Math.max(0, found.judged - saved);
  return { ...queue, waiting: [...queue.waiting, ...fresh], before, total: found.total };
}

export function judge(queue: PairQueue, verdict: Verdict): PairQueue {
  const [pair, ...waiting] = queue.waiting;
  return pair === undefined ? queue : { ...queue, waiting, judged: [...queue.judged, { pair, verdict }] };
}

/** Puts the last pair back to the front. */
export function undo(queue: PairQueue): PairQueue {
  const last = queue.judged.at(-1);
  return last === undefined
    ? queue
    : { ...queue, judged: queue.judged.slice(0, -1), waiting: [last.pair, ...queue.waiting] };
}

/** Puts a pair whose vote failed to save next in line. */
export function requeued(queue: PairQueue, pair: Pair): PairQueue {
  const key = keyOf(pair);
  if (!queue.judged.some((each) => keyOf(each.pair) === key)) return queue;
  const [first, ...rest] = queue.waiting;
  return {
    ...queue,
    judged: queue.judged.filter((each) => keyOf(each.pair) !== key),
    waiting: first ? [first, pair, ...rest] : [pair],
  };
}

/** Removes a pair that cannot be judged, for example because one of its candidates was rejected. */
export function dropped(queue: PairQueue, pair: Pair): PairQueue {
  const key = keyOf(pair);
  return {
    ...queue,
    judged: queue.judged.filter((each) => keyOf(each.pair) !== key),
    waiting: queue.waiting.filter((each) => keyOf(each) !== key),
  };
}

export function progressOf(queue: PairQueue): { judged: number; total: number } {
  return { judged: Math.min(queue.before + queue.judged.length, queue.total), total: queue.total };
}

/** The vote in the form of the API. */
export function voteOf({ pair: [left, right], verdict }: Judged): Schemas["CastVote"] {
  const [winner, loser] = verdict === "right" ? [right, left] : [left, right];
  return {
    winner_id: winner.id,
    loser_id: loser.id,
    verdict: verdict === "both" || verdict === "neither" ? verdict : "winner",
  };
}

const KEYS: Record<string, Verdict | "undo"> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "both",
  ArrowDown: "neither",
  u: "undo",
  U: "undo",
};

export function actionOf(key: string): Verdict | "undo" | undefined {
  return KEYS[key];
}
