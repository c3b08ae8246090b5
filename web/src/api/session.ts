// The session of this browser: a cookie that scripts cannot read, and the CSRF token that each change must carry.
type Listener = () => void;

let csrfToken: string | null = null;
const ended = new Set<Listener>();

export function rememberCsrfToken(token: string | null | undefined): void {
  csrfToken = token ?? null;
}

export function knownCsrfToken(): string | null {
  return csrfToken;
}

/** The listener runs when the API reports that the session has ended. Returns a function that removes the listener. */
export function onSessionEnd(listener: Listener): () => void {
  ended.add(listener);
  return () => ended.delete(listener);
}

export function announceSessionEnd(): void {
  csrfToken = null;
  for (const listener of ended) listener();
}
