// Refusals of the API arrive as problem+json (RFC 9457): a title, what to do, and the field that is wrong.
import { problemTexts } from "@/texts/problems";
import type { Problem } from "./types";

export class ApiError extends Error {
  readonly problem: Problem;
  /** Seconds until a retry makes sense, if the server gave them. */
  readonly retryAfter: number | null;

  constructor(problem: Problem, retryAfter: number | null = null) {
    super(problem.detail ?? problem.title);
    this.name = "ApiError";
    this.problem = problem;
    this.retryAfter = retryAfter;
  }

  get status(): number {
    return this.problem.status;
  }

  get code(): string {
    return this.problem.code;
  }

  /** The reason why the API refused this field, or null. `prompt` also finds `properties.prompt` and `body.prompt`. */
  fieldReason(field: string): string | null {
    const found = this.problem.errors?.find((each) => each.field === field || each.field.endsWith(`.${field}`));
    return found === undefined ? null : asSentence(found.reason);
  }
}

/** The request did not reach the control plane: the network is down, or the control plane restarts. */
export class NetworkError extends Error {
  constructor() {
    super(problemTexts.noConnection);
    this.name = "NetworkError";
  }
}

export async function readProblem(response: Response): Promise<ApiError> {
  const seconds = Number(response.headers.get("retry-after"));
  const retryAfter = Number.isFinite(seconds) && seconds > 0 ? seconds : null;
  const body: unknown = await response.json().catch(() => null);
  if (isProblem(body)) return new ApiError(body, retryAfter);
  // A proxy between browser and control plane returned a page of its own.
  const title = response.status >= 500 ? problemTexts.unavailable : problemTexts.unexpected(response.status);
  return new ApiError({ type: "about:blank", title, status: response.status, code: "unexpected" }, retryAfter);
}

export function fieldReason(error: unknown, field: string): string | null {
  return error instanceof ApiError ? error.fieldReason(field) : null;
}

/** One sentence for a toast or a panel, for any thrown value. */
export function explain(error: unknown): string {
  return error instanceof Error ? error.message : problemTexts.unexpectedError;
}

export function hasStatus(error: unknown, status: number): boolean {
  return error instanceof ApiError && error.status === status;
}

function isProblem(body: unknown): body is Problem {
  return typeof body === "object" && body !== null && "title" in body && "code" in body && "status" in body;
}

function asSentence(reason: string): string {
  const text = reason.charAt(0).toUpperCase() + reason.slice(1);
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
