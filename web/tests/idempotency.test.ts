import { expect, test } from "vitest";
import { IdempotencyKey } from "@/api/idempotency";
import { ApiError, NetworkError } from "@/api/problems";

const refused = (status: number) => new ApiError({ type: "about:blank", title: "No", status, code: "x" });

test("repeating what may have been lost uses the same key", () => {
  const key = new IdempotencyKey();
  const first = key.of({ a: 1 });
  key.settle(new NetworkError());
  expect(key.of({ a: 1 })).toBe(first);
  key.settle(refused(503));
  expect(key.of({ a: 1 })).toBe(first);
  expect(key.of({ a: 2 })).not.toBe(first);
});

test("after an answer the next press is another wish", () => {
  const key = new IdempotencyKey();
  const first = key.of({ a: 1 });
  key.settle(null);
  const second = key.of({ a: 1 });
  expect(second).not.toBe(first);
  key.settle(refused(422));
  expect(key.of({ a: 1 })).not.toBe(second);
});
