import { expect, test } from "vitest";
import { duration, relativeTime } from "@/design/times";

const now = new Date("2026-01-02T12:00:00Z");
const ago = (seconds: number) => relativeTime(new Date(now.getTime() - seconds * 1000), now);

test("times are relative, in the largest unit that fits", () => {
  expect(ago(2)).toBe("just now");
  expect(ago(-3)).toBe("just now");
  expect(ago(14)).toBe("14 sec ago");
  expect(ago(119)).toBe("1 min ago");
  expect(ago(7_200)).toBe("2 hr ago");
  expect(ago(90_000)).toBe("yesterday");
  expect(ago(3 * 86_400)).toBe("3 days ago");
  expect(ago(-28 * 86_400)).toBe("in 4 weeks");
  expect(ago(-7_200)).toBe("in 2 hr");
});

test("durations get coarser as they grow", () => {
  expect([0, 0.02, 0.31, 12.6, 59.4, 72, 3_599.6, 7_500].map(duration)).toEqual([
    "0 s",
    "< 0.1 s",
    "0.3 s",
    "13 s",
    "59 s",
    "1 m 12 s",
    "1 h 0 m",
    "2 h 5 m",
  ]);
});
