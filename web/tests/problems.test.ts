import { expect, test } from "vitest";
import { ApiError, fieldReason, isShownBy, readProblem } from "@/api/problems";

const problem = {
  type: "urn:callsheet:error:invalid_request",
  title: "The request is not valid.",
  status: 422,
  code: "invalid_request",
  errors: [{ field: "properties.prompt", reason: "has 3 characters at least" }],
};

test("a refusal is shown at the field it concerns", async () => {
  const error = await readProblem(
    new Response(JSON.stringify(problem), { status: 422, headers: { "retry-after": "7" } }),
  );
  expect(error).toBeInstanceOf(ApiError);
  expect([error.status, error.code, error.retryAfter]).toEqual([422, "invalid_request", 7]);
  expect(fieldReason(error, "prompt")).toBe("Has 3 characters at least.");
  expect(fieldReason(error, "rompt")).toBeNull();
  expect(fieldReason(new Error("other"), "prompt")).toBeNull();
});

test("a proxy's own page is an error too", async () => {
  const error = await readProblem(new Response("<h1>Bad gateway</h1>", { status: 502 }));
  expect([error.status, error.code]).toEqual([502, "unexpected"]);
  expect(error.message).not.toContain("<h1>");
});

test("a bar repeats no reason that a field shows", async () => {
  const error = await readProblem(new Response(JSON.stringify(problem), { status: 422 }));
  expect(isShownBy(error, ["name", "prompt"])).toBe(true);
  expect(isShownBy(error, ["rompt"])).toBe(false);
  const both = { ...problem, errors: [...problem.errors, { field: "limit", reason: "is too large" }] };
  expect(isShownBy(await readProblem(new Response(JSON.stringify(both), { status: 422 })), ["prompt"])).toBe(false);
  expect(isShownBy(new Error("other"), ["prompt"])).toBe(false);
});
