// What is sent again, against a server that refuses and breaks connections on request.
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Callsheet, CallsheetError, Refusal, TooManyActiveJobs, UnknownResponse, Unreachable } from "callsheet";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** Gives the answers one after the other, the last one again. Returns the requests that it got. */
async function answered(answers: Answer[], ask: (callsheet: Callsheet) => Promise<void>): Promise<IncomingMessage[]> {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    asked.push(request);
    answers[Math.min(asked.length, answers.length) - 1]?.(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as AddressInfo;
    await ask(new Callsheet(`http://127.0.0.1:${port}/`, "cs_key", { retrySeconds: 3 }));
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return asked;
}

const refuse =
  (status: number, code: string, headers: Record<string, string> = {}): Answer =>
  (_, response) => {
    response.writeHead(status, { ...headers, "content-type": "application/problem+json", "x-request-id": "r-1" });
    response.end(JSON.stringify({ type: "about:blank", title: "No.", detail: "Wait.", status, code }));
  };
const accept: Answer = (_, response) => response.end('{"balance": 5, "held": 0}');
const wallet = async (callsheet: Callsheet) => assert.equal((await callsheet.wallet()).balance, 5);

test("a request is sent again after a lost connection and when the server asks for it", async () => {
  const cut: Answer = (request) => request.socket.destroy();
  const passing = [cut, refuse(503, "unavailable"), refuse(429, "rate_limited", { "retry-after": "0" }), accept];
  const asked = await answered(passing, wallet);
  assert.equal(asked.length, passing.length);
  assert.ok(asked.every((each) => each.headers.authorization === "Bearer cs_key"));
});

test("a service key names the user that it acts for in each request", async () => {
  const asked = await answered([accept], async ({ url }) => {
    await wallet(new Callsheet(url, "cs_key", { onBehalfOf: "external:4711" }));
  });
  assert.deepEqual(
    asked.map((each) => each.headers["callsheet-on-behalf-of"]),
    ["external:4711"],
  );
  assert.throws(() => new Callsheet("http://x", "cs_key", { onBehalfOf: "4711" }), /must start with external:/);
});

test("a refusal that does not pass is thrown at once", async () => {
  const asked = await answered([refuse(429, "too_many_active_jobs")], async (callsheet) => {
    await assert.rejects(callsheet.wallet(), (error) => {
      assert.ok(error instanceof TooManyActiveJobs && error instanceof Refusal && error instanceof CallsheetError);
      assert.deepEqual([error.name, error.message, error.requestId], ["TooManyActiveJobs", "No. Wait.", "r-1"]);
      return true;
    });
  });
  assert.equal(asked.length, 1);
});

test("a POST is sent again only with its idempotency key", async () => {
  const once = await answered([refuse(503, "unavailable"), accept], async (callsheet) => {
    await assert.rejects(callsheet.request("POST", "/api/x", {}), Refusal);
  });
  assert.equal(once.length, 1);
  const twice = await answered([refuse(503, "unavailable"), accept], async (callsheet) => {
    await callsheet.request("POST", "/api/x", {}, { idempotencyKey: "k" });
  });
  assert.deepEqual(
    twice.map((each) => each.headers["idempotency-key"]),
    ["k", "k"],
  );
});

test("a retry of a batch is sent again with the same key, and the next retry has another one", async () => {
  const batch: Answer = (_, response) => response.end('{"id": "b", "status": "active"}');
  const asked = await answered([batch, refuse(503, "unavailable"), batch], async (callsheet) => {
    const found = await callsheet.batch("noir", [{ strength: 1 }]);
    await found.retry();
    await found.retry();
  });
  const [, first, again, next] = asked.map((each) => each.headers["idempotency-key"]);
  assert.ok(first && next);
  assert.deepEqual([again, next === first], [first, false]);
});

test("a wait that is longer than the patience is not begun", async () => {
  const asked = await answered([refuse(503, "unavailable", { "retry-after": "60" })], async (callsheet) => {
    await assert.rejects(callsheet.wallet(), (error) => error instanceof Refusal && error.retryAfter === 60);
  });
  assert.equal(asked.length, 1);
});

test("a server that is no control plane is named", async () => {
  const page: Answer = (_, response) => response.end("<html>");
  await answered([page], async (callsheet) => assert.rejects(callsheet.wallet(), UnknownResponse));
  const elsewhere: Answer = (_, response) => response.writeHead(302, { location: "/login" }).end();
  await answered([elsewhere], async (callsheet) => assert.rejects(callsheet.wallet(), /returned the status 302/));
  const gone = new Callsheet("http://127.0.0.1:9", "cs_key", { retrySeconds: 0 });
  await assert.rejects(gone.wallet(), Unreachable);
});

test("a key that was set for another URL is not sent", () => {
  process.env.CALLSHEET_CLIENT__URL = "https://one.example/";
  process.env.CALLSHEET_CLIENT__API_KEY = "cs_one";
  assert.equal(new Callsheet().url, "https://one.example");
  assert.throws(() => new Callsheet("https://two.example"), /It is not sent to https:\/\/two\.example/);
  assert.equal(new Callsheet("https://two.example", "cs_two").url, "https://two.example");
});

test("a caller can end a request", async () => {
  const silent: Answer = () => {};
  const stop = new AbortController();
  await answered([silent], async (callsheet) => {
    const asking = callsheet.request("GET", "/api/wallet", undefined, { signal: stop.signal });
    stop.abort(new Error("stopped"));
    await assert.rejects(asking, /stopped/);
  });
});
