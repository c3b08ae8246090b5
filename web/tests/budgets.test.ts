import { expect, test } from "vitest";
import { limitOf, subjectOf } from "@/pages/operate/tenant/budgets/subject";
import { daysOf, linesOf, periodOf, sinceOf, subjectsOf } from "@/pages/operate/tenant/spending/series";
import { resetText } from "@/parts/budget/reset";

test("a limit is a whole number, and may be 0", () => {
  expect(["50,000", " 1 000 ", "0"].map(limitOf)).toEqual([50_000, 1000, 0]);
  expect(["", "-1", "1.5", "many", "99999999999999999"].map(limitOf)).toEqual([null, null, null, null, null]);
});

test("a budget says which jobs it counts", () => {
  const budget = { period: "week" as const, user_id: null, key_id: null, provider: null };
  expect(subjectOf(budget)).toBe("All jobs of the tenant, per week");
  expect(subjectOf({ ...budget, user_id: "1", user: "ann@example.com", provider: "replicate" })).toBe(
    "Jobs of ann@example.com, on replicate, per week",
  );
  expect(subjectOf({ ...budget, user_id: "1", user: null })).toBe("Jobs of a deleted user, per week");
});

test("a budget resets at midnight of its own zone", () => {
  const budget = { resets_at: "2026-11-30T23:00:00Z", time_zone: "Europe/Berlin" };
  const text = resetText(budget, new Date("2026-11-28T23:00:00Z"));
  expect(text).toContain("in 2 days");
  expect(text).toContain("00:00 (Europe/Berlin)");
  expect(resetText({ ...budget, time_zone: "Mars/Base" }, new Date("2026-11-28T23:00:00Z"))).toContain("23:00 UTC");
});

const rows = [
  { first_day: "2026-11-01", subject: "a", name: "Noir", jobs: 1, tokens: 5 },
  { first_day: "2026-11-03", subject: "a", name: "Noir", jobs: 2, tokens: 6 },
  { first_day: "2026-11-03", subject: "b", name: "Glow", jobs: 1, tokens: 20 },
  { first_day: "2026-11-03", subject: null, name: null, jobs: 4, tokens: 0 },
  { first_day: "2026-11-03", subject: "0123abcd", name: null, jobs: 1, tokens: 1 },
  { first_day: "2026-11-03", subject: "e", name: "Relight", jobs: 1, tokens: 2 },
];

test("the largest subjects have a line each, and the others share one", () => {
  const subjects = subjectsOf(rows, "effect");
  expect(subjects.map(({ name, tokens }) => [name, tokens])).toEqual([
    ["Glow", 20],
    ["Noir", 11],
    ["Relight", 2],
    ["Deleted …abcd", 1],
    ["Tasks and jobs without an effect", 0],
  ]);
  const days = daysOf(new Date(2026, 10, 1), new Date(2026, 10, 3, 12), "day");
  expect(days).toEqual(["2026-11-01", "2026-11-02", "2026-11-03"]);
  const lines = linesOf(rows, subjects, days);
  expect(lines.map(({ name, values }) => [name, ...values])).toEqual([
    ["Glow", 0, 0, 20],
    ["Noir", 5, 0, 6],
    ["Relight", 0, 0, 2],
    ["Others", 0, 0, 1],
  ]);
});

test("a year is shown by weeks that begin on Monday", () => {
  expect([periodOf(90), periodOf(365)]).toEqual(["day", "week"]);
  expect(sinceOf(7, new Date(2026, 10, 20, 1)).getDate()).toBe(14);
  expect(daysOf(new Date(2026, 10, 18), new Date(2026, 10, 25), "week")).toEqual(["2026-11-16", "2026-11-23"]);
});
