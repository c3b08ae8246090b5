// The link that `callsheet demo` prints. Its token is the fragment of the URL, so it reaches no server and no log.
import type { QueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { ApiError } from "@/api/problems";
import { meQuery } from "@/api/queries";
import { rememberCsrfToken } from "@/api/session";

const PREFIX = "once=";

export function onceToken(fragment: string): string | null {
  return fragment.startsWith(PREFIX) ? fragment.slice(PREFIX.length) : null;
}

/** Whether a user is signed in now. The link works once, but a user who opens it again usually still has a session. */
export async function signInOnce(client: QueryClient, token: string): Promise<boolean> {
  try {
    const me = await data(api.POST("/api/auth/once", { body: { token } }));
    client.clear();
    rememberCsrfToken(me.csrf_token);
    client.setQueryData(keys.me, me);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
  try {
    await client.ensureQueryData(meQuery);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return false;
    throw error;
  }
}
