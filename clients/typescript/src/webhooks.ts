// Checks the signature of a webhook: https://www.standardwebhooks.com.
import { ClientError, WebhookRefused } from "./problems.ts";

const PREFIX = "whsec_";
const MIN_BYTES = 16;
const TOLERANCE_SECONDS = 300;

export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/**
 * Returns the JSON of a webhook whose signature is valid, and throws WebhookRefused otherwise.
 *
 * `body` is the body as it was received, before any parsing. While a secret is replaced, give both. A webhook may come
 * twice: its header `webhook-id` is the same then.
 */
export async function verify<Event = unknown>(
  headers: WebhookHeaders,
  body: string | Uint8Array,
  secret: string | readonly string[],
  { toleranceSeconds = TOLERANCE_SECONDS }: { toleranceSeconds?: number } = {},
): Promise<Event> {
  const keys = await Promise.all((typeof secret === "string" ? [secret] : secret).map(keyOf));
  const [id, sent, signatures] = ["id", "timestamp", "signature"].map((name) => header(headers, `webhook-${name}`));
  if (!id || !sent || !signatures)
    throw new WebhookRefused("A header is missing: webhook-id, webhook-timestamp or webhook-signature.");
  if (!/^\d{1,15}$/.test(sent) || Math.abs(Date.now() / 1000 - Number(sent)) > toleranceSeconds)
    throw new WebhookRefused("The webhook is too old, or the clock of this machine is wrong.");
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = joined(new TextEncoder().encode(`${id}.${sent}.`), content);
  const given = signatures.split(" ").map(signatureOf);
  const checks = keys.flatMap((key) =>
    given.map((each) => each !== null && crypto.subtle.verify("HMAC", key, each, signed)),
  );
  if (!(await Promise.all(checks)).includes(true)) throw new WebhookRefused("The signature is wrong.");
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content)) as Event;
  } catch {
    throw new WebhookRefused("The body is not JSON.");
  }
}

function header(headers: WebhookHeaders, name: string): string | null {
  if (headers instanceof Headers) return headers.get(name);
  const found = Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];
  return (Array.isArray(found) ? found[0] : found) ?? null;
}

async function keyOf(secret: string): Promise<CryptoKey> {
  const key = secret.startsWith(PREFIX) ? bytesOf(secret.slice(PREFIX.length)) : null;
  if (key === null || key.length < MIN_BYTES)
    throw new ClientError("The secret of the webhook is not valid. It is whsec_ and base64 of 16 bytes or more.");
  return crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

function signatureOf(text: string): Uint8Array<ArrayBuffer> | null {
  return text.startsWith("v1,") ? bytesOf(text.slice(3)) : null;
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  } catch {
    return null;
  }
}

function joined(start: Uint8Array, rest: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(start.length + rest.length);
  whole.set(start);
  whole.set(rest, start.length);
  return whole;
}
