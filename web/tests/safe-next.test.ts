import { expect, test } from "vitest";
import { safeNext } from "@/pages/sign-in/safe-next";

test("signing in leads back to a page of this application", () => {
  expect(safeNext("/jobs?status=failed#top")).toBe("/jobs?status=failed#top");
});

test.each([
  "https://example.com/",
  "//example.com",
  "/\\example.com",
  "javascript:alert(1)",
  "/a\nb",
  "/sign-in?next=/a",
  "",
  7,
  null,
  `/${"a".repeat(3_000)}`,
])("%j leads nowhere", (value) => {
  expect(safeNext(value)).toBeUndefined();
});
