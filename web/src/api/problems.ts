// Refusals of the API arrive as problem+json (RFC 9457): a title, what to do, and the field that is wrong.
import { Refusal, readProblem as read, Unreachable } from "@client/problems";
import { problemTexts } from "@/texts/problems";
import type { Problem } from "./types";

export class ApiError extends Refusal {
  constructor(problem: Problem, retryAfter: number | null = null) {
    super(problem, retryAfter);
    this.name = "ApiError";
    this.message = problem.detail ?? problem.title;
  }

  /** The reason why the API refused this field, or null. `prompt` also finds `properties.prompt` and `body.prompt`. */
  fieldReason(field: string): string | null {
    const found = this.problem.errors?.find((each) => each.field === field || each.field.endsWith(`.${field}`));
    return found === undefined ? null : asSentence(found.reason);
  }
}

/** The request did not reach the control plane: the network is down, or the control plane restarts. */
export class NetworkError extends Unreachable {
  constructor() {
    super(problemTexts.noConnection);
    this.name = "NetworkError";
  }
}

export async function readProblem(response: Response): Promise<ApiError> {
  const { problem, retryAfter } = await read(response);
  if (problem !== null) return new ApiError(problem, retryAfter);
  // A proxy between browser and control plane returned a page of its own.
  const title = response.status >= 500 ? problemTexts.unavailable : problemTexts.unexpected(response.status);
  return new ApiError({ type: "about:blank", title, status: response.status, code: "unexpected" }, retryAfter);
}

export function fieldReason(error: unknown, field: string): string | null {
  return error instanceof ApiError ? error.fieldReason(field) : null;
}

/** Whether each reason of a refusal belongs to one of these fields, which show them. */
export function isShownBy(error: unknown, fields: readonly string[]): boolean {
  const problems = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  return (
    problems.length > 0 &&
    problems.every((each) => fields.some((field) => each.field === field || each.field.endsWith(`.${field}`)))
  );
}

/** One sentence for a toast or a panel, for any thrown value. */
export function explain(error: unknown): string {
  return error instanceof Error ? error.message : problemTexts.unexpectedError;
}

export function hasStatus(error: unknown, status: number): boolean {
  return error instanceof ApiError && error.status === status;
}

function asSentence(reason: string): string {
  const text = reason.charAt(0).toUpperCase() + reason.slice(1);
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
