import { expect, test } from "vitest";
import { ApiError, NetworkError } from "@/api/problems";
import { shouldRetry } from "@/api/query-client";

function failure(status: number, retryAfter: number | null = null): ApiError {
  return new ApiError({ type: "about:blank", title: "It failed.", status, code: "test" }, retryAfter);
}

/** How often a request is sent again until its error is shown. */
function retries(error: unknown): number {
  let failures = 0;
  while (shouldRetry(failures, error)) failures++;
  return failures;
}

test("a failure that may pass is tried again a few times", () => {
  for (const error of [failure(500), failure(502), new NetworkError(), failure(429, 2)]) expect(retries(error)).toBe(3);
});

test("a server that is away and names a time is confirming once more", () => {
  expect(retries(failure(503, 5))).toBe(1);
});

test("a refusal is shown at once", () => {
  for (const status of [400, 403, 404, 409, 422]) expect(retries(failure(status))).toBe(0);
});
