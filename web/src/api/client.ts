// The one way to call the API. Types come from our own OpenAPI document.
import createClient from "openapi-fetch";
import { NetworkError, readProblem } from "./problems";
import type { paths } from "./schema";
import { announceSessionEnd, knownCsrfToken, rememberCsrfToken } from "./session";
import type { Me } from "./types";

const SAFE = new Set(["GET", "HEAD"]);
// These paths are called by people without a session, so the browser has no CSRF token for them.
const SIGNED_OUT = new Set(["/api/auth/login", "/api/auth/once", "/api/auth/demo", "/api/password-resets"]);

export const api = createClient<paths>({ baseUrl: window.location.origin, fetch: send });

/**
 * Returns the body of a response without its wrapping: `data(api.GET("/api/wallet"))`. Throws an ApiError if the API
 * refused.
 */
export async function data<Value>(call: Promise<{ data?: Value }>): Promise<Value> {
  return (await call).data as Value;
}

async function send(request: Request): Promise<Response> {
  const path = new URL(request.url).pathname;
  if (SAFE.has(request.method) || SIGNED_OUT.has(path)) return checked(await reach(request), path);
  const again = request.clone();
  const token = knownCsrfToken() ?? (await freshCsrfToken());
  const response = await reach(withToken(request, token));
  // The user signed in again in another tab. The cookie belongs to the new session and the stored token to the old one.
  if (
    response.status === 403 &&
    (
      await response
        .clone()
        .json()
        .catch(() => null)
    )?.code === "csrf_failed"
  ) {
    return checked(await reach(withToken(again, await freshCsrfToken())), path);
  }
  return checked(response, path);
}

async function reach(request: Request): Promise<Response> {
  try {
    return await fetch(request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new NetworkError();
  }
}

async function checked(response: Response, path: string): Promise<Response> {
  if (response.ok) return response;
  if (response.status === 401 && !SIGNED_OUT.has(path)) announceSessionEnd();
  throw await readProblem(response);
}

function withToken(request: Request, token: string): Request {
  request.headers.set("X-CSRF-Token", token);
  return request;
}

async function freshCsrfToken(): Promise<string> {
  const me = (await (await checked(await reach(new Request("/api/me")), "/api/me")).json()) as Me;
  rememberCsrfToken(me.csrf_token);
  return me.csrf_token ?? "";
}
