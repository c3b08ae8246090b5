// The errors of the client, and how a refusal is read: problem+json (RFC 9457).
import type { Job, Problem } from "./models.ts";

export class CallsheetError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

export interface FieldProblem {
  field: string;
  reason: string;
}

/** The control plane refused a request. Each code has a class of its own. */
export class Refusal extends CallsheetError {
  readonly problem: Problem;
  /** Seconds until the same request makes sense again, if the server said them. */
  readonly retryAfter: number | null;
  readonly requestId: string | null;

  constructor(problem: Problem, retryAfter: number | null = null, requestId: string | null = null) {
    super(problem.detail ? `${problem.title} ${problem.detail}` : problem.title);
    this.problem = problem;
    this.retryAfter = retryAfter;
    this.requestId = problem.request_id ?? requestId;
  }

  get code(): string {
    return this.problem.code;
  }

  get status(): number {
    return this.problem.status;
  }

  get detail(): string | null {
    return this.problem.detail ?? null;
  }

  /** Each field that is wrong, with the reason. */
  get errors(): readonly FieldProblem[] {
    return this.problem.errors ?? [];
  }

  /** The members that the code adds to a problem, for example `balance`. */
  get data(): Record<string, unknown> {
    return Object.fromEntries(Object.entries(this.problem).filter(([name]) => !MEMBERS.has(name)));
  }
}

const MEMBERS = new Set(["type", "title", "status", "code", "detail", "errors", "request_id"]);

/** The client found the problem itself. */
export class ClientError extends CallsheetError {}

/** The control plane or its storage does not respond, although the client tried for some time. */
export class Unreachable extends ClientError {}

/** The server does not respond like Callsheet. */
export class UnknownResponse extends ClientError {}

/** A file cannot be read, written, sent or fetched. */
export class UnusableFile extends ClientError {}

/** The job has ended without a result: it has failed or expired, or it was canceled. */
export class JobNotCompleted extends ClientError {
  readonly job: Job;

  constructor(job: Job) {
    const reason = job.error ? `: ${job.error.message}` : ".";
    super(`Job ${job.id} ${job.status === "canceled" ? "was" : "has"} ${job.status}${reason}`);
    this.job = job;
  }
}

/** The job has not ended within the given time. It goes on. */
export class NotEnded extends ClientError {}

/** The request of a webhook does not have a valid signature. Respond with this status, and do nothing else. */
export class WebhookRefused extends ClientError {
  readonly status = 400;
}

export interface Read {
  /** null if the response is not of Callsheet, for example of a proxy in between. */
  problem: Problem | null;
  retryAfter: number | null;
}

/** Reads the response to a refused request. */
export async function readProblem(response: Response): Promise<Read> {
  const header = response.headers.get("retry-after") ?? "";
  const retryAfter = /^\d+$/.test(header) ? Number(header) : null;
  const body: unknown = await response.json().catch(() => null);
  return { problem: isProblem(body) ? body : null, retryAfter };
}

function isProblem(body: unknown): body is Problem {
  return typeof body === "object" && body !== null && "title" in body && "code" in body && "status" in body;
}
