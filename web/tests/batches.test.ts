import { expect, test } from "vitest";
import { isFiltered, readSearch } from "@/pages/batches/filters";
import { endsOf, outcomeOf } from "@/pages/batches/outcomes";

const counts = { active: 0, completed: 0, failed: 0, canceled: 0, expired: 0 };
const ended = (part: Partial<typeof counts>) => ({
  status: "finished" as const,
  items: 4,
  counts: { ...counts, ...part },
});

test("a batch is named after what its user must know first", () => {
  expect(outcomeOf(ended({ completed: 4 }))).toEqual({ tone: "ok", word: "Completed" });
  expect(outcomeOf(ended({ completed: 2, failed: 1, expired: 1 }))).toEqual({ tone: "bad", word: "2 failed" });
  expect(outcomeOf(ended({ canceled: 4 }))).toEqual({ tone: "plain", word: "Canceled" });
  expect(outcomeOf(ended({ completed: 3, canceled: 1 }))).toEqual({ tone: "warn", word: "1 canceled" });
  const running = { ...ended({ active: 1, failed: 2, canceled: 1 }), status: "running" as const };
  expect(outcomeOf(running).word).toBe("In progress");
  expect(endsOf(running)).toBe("2 failed, 1 canceled");
  expect(endsOf(ended({ failed: 4 }))).toBe("");
});

test("a URL with wrong filters lists all batches", () => {
  expect(isFiltered(readSearch({ status: "done", effect: "No Effect", reference: "" }))).toBe(false);
  expect(readSearch({ status: "running", effect: "noir", reference: "order-7" })).toEqual({
    status: "running",
    effect: "noir",
    reference: "order-7",
  });
});
