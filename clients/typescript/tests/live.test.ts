// The client against a control plane, which tests/api/test_typescript_client.py at the top starts. A worker there
// completes the jobs of one effect; the jobs of another one wait.
import assert from "node:assert/strict";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  Callsheet,
  IdempotencyKeyReused,
  InsufficientTokens,
  InvalidRequest,
  JobNotCompleted,
  NotAuthenticated,
  NotEnded,
  NotFound,
  type StreamItem,
  UnusableFile,
  verify,
  WebhookRefused,
} from "callsheet";
import { fileAt, save } from "callsheet/node";
import { proxyTo } from "./proxy.ts";

const given = JSON.parse(process.env.CALLSHEET_TESTS ?? "{}");
const callsheet = new Callsheet(given.url, given.key, { retrySeconds: 20 });
const VIDEO = Buffer.from(given.video, "base64");
const IMAGE = Buffer.from(given.image, "base64");
const OUTPUT = Buffer.from(given.output, "base64");

const clip = () => new File([VIDEO], "in.mp4");

function statusesOf(items: StreamItem[]): unknown[] {
  return items.filter((item) => item.type === "event").map((item) => item.event.to_status);
}

test("run uploads, submits, waits and returns the file", async () => {
  const directory = await mkdtemp(join(tmpdir(), "callsheet-"));
  await writeFile(join(directory, "in.mp4"), VIDEO);
  const sent: [number, number][] = [];
  const seen: unknown[] = [];
  const values = {
    video: await fileAt(join(directory, "in.mp4")),
    overlay: new File([IMAGE], "over.png"),
    prompt: "a cat",
    strength: 0.5,
  };
  const result = await callsheet.run(given.effect, values, {
    clientReference: "order-7",
    metadata: { page: "12" },
    onUpload: (done, size) => sent.push([done, size]),
    onProgress: (progress) => seen.push(progress.percent),
  });
  assert.deepEqual([result.mimeType, result.size], ["video/mp4", OUTPUT.length]);
  assert.deepEqual(Buffer.from(await (await result.blob()).arrayBuffer()), OUTPUT);
  assert.deepEqual(await readFile(await save(result, join(directory, "out.mp4"))), OUTPUT);
  assert.ok(sent.some(([done, size]) => done === VIDEO.length && size === VIDEO.length));
  assert.deepEqual(seen, [40]);
  assert.equal((await callsheet.wallet()).balance, given.tokens - given.cost);
  const listed = await callsheet.request<{ items: Record<string, unknown>[] }>(
    "GET",
    "/api/ai-jobs?client_reference=order-7",
  );
  assert.deepEqual(
    listed.items.map((job) => [job.status, job.metadata]),
    [["completed", { page: "12" }]],
  );
});

test("a job is found again, watched and canceled", async () => {
  const file = await callsheet.upload(clip());
  const key = { idempotencyKey: "order-1" };
  const job = await callsheet.submit(given.idle, { file, prompt: "a cat" }, key);
  const again = await callsheet.submit(given.idle, { file, prompt: "a cat" }, key);
  assert.equal((await callsheet.job(job.id)).id, again.id);
  assert.equal(job.id, again.id);
  await assert.rejects(callsheet.submit(given.idle, { file, prompt: "a dog" }, key), IdempotencyKeyReused);
  await assert.rejects(again.wait({ timeoutSeconds: 0.2 }), NotEnded);
  await assert.rejects(again.wait({ signal: AbortSignal.abort(new Error("stopped")) }), /stopped/);
  const streaming = Array.fromAsync(job.stream());
  const waiting = assert.rejects(again.wait(), (ended) => {
    assert.ok(ended instanceof JobNotCompleted);
    assert.equal(ended.job.status, "canceled");
    assert.match(ended.message, /was canceled/);
    return true;
  });
  assert.equal((await job.cancel()).status, "canceled");
  assert.equal(statusesOf(await streaming).at(-1), "canceled");
  await waiting;
  assert.equal((await job.cancel()).status, "canceled");
});

test("a refusal has the class of its code", async () => {
  const values = { video: clip(), prompt: "a cat" };
  await assert.rejects(callsheet.submit(given.dear, values), (poor) => {
    assert.ok(poor instanceof InsufficientTokens);
    assert.deepEqual([poor.code, poor.status, poor.data.required_tokens], ["insufficient_tokens", 402, 1000]);
    assert.ok(poor.requestId);
    assert.match(poor.message, /costs 1000 tokens/);
    return true;
  });
  await assert.rejects(callsheet.submit(given.idle, { ...values, strength: 99 }), (wrong) => {
    assert.ok(wrong instanceof InvalidRequest);
    assert.deepEqual(
      wrong.errors.map((each) => each.field),
      ["input_payload.strength"],
    );
    return true;
  });
  await assert.rejects(callsheet.job("01900000-0000-7000-8000-000000000000"), NotFound);
  await assert.rejects(new Callsheet(given.url, "cs_wrong").wallet(), NotAuthenticated);
});

test("what cannot be sent is refused before it is uploaded", async () => {
  const files = async () =>
    (await callsheet.request<{ storage: { user: { files: number } } }>("GET", "/api/me")).storage.user.files;
  const before = await files();
  await assert.rejects(
    callsheet.submit(given.idle, { image: clip(), prompt: "a cat" }),
    /has no such property\. It has/,
  );
  for (const wrong of [new File([], "empty.mp4"), new File([VIDEO], "in.doc"), new Blob([VIDEO])])
    await assert.rejects(callsheet.submit(given.idle, { video: wrong, prompt: "a cat" }), UnusableFile);
  await assert.rejects(fileAt("/nowhere/in.mp4"), UnusableFile);
  assert.equal(await files(), before);
});

test("a submit whose response was lost is one job", async () => {
  await using proxy = await proxyTo(given.url);
  let lost = 0;
  proxy.swallows = ({ method, url }) => method === "POST" && url === "/api/ai-jobs" && lost++ < 2;
  const job = await new Callsheet(proxy.url, given.key).submit(
    given.idle,
    { video: clip(), prompt: "a cat" },
    { clientReference: "lost" },
  );
  const listed = await callsheet.request<{ items: { id: string }[] }>("GET", "/api/ai-jobs?client_reference=lost");
  assert.deepEqual([listed.items.map((each) => each.id), lost], [[job.id], 3]);
  await job.cancel();
});

test("a stream goes on at the last event when the connection was lost", async () => {
  await using proxy = await proxyTo(given.url);
  const other = new Callsheet(proxy.url, given.key);
  const job = await other.submit(given.idle, { video: clip(), prompt: "a cat" });
  const items: StreamItem[] = [];
  let cuts = 0;
  for await (const item of job.stream({ onLost: () => cuts++ })) {
    items.push(item);
    if (item.type !== "event" || item.event.to_status !== "queued") continue;
    proxy.cut();
    await callsheet.job(job.id).then((each) => each.cancel());
  }
  const numbers = items.map((item) => (item.type === "event" ? item.event.seq : null));
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => index + 1),
  );
  assert.equal(statusesOf(items).at(-1), "canceled");
  assert.ok(cuts > 0);
});

test("a quote says what a submit would cost and what is missing", async () => {
  const file = await callsheet.upload(clip());
  const quote = await callsheet.quote(given.dear, { file, prompt: "a cat" });
  assert.deepEqual([quote.cost, quote.can_submit, quote.missing[0]?.code], [1000, false, "insufficient_tokens"]);
});

test("a quote of a batch has one price, also before its files are uploaded", async () => {
  const items = [{ prompt: "a cat" }, { prompt: "a dog" }];
  const quote = await callsheet.quoteBatch(given.dear, items);
  assert.deepEqual([quote.cost, quote.jobs, quote.can_submit], [2000, 2, false]);
  assert.deepEqual(
    quote.missing.map((each) => [each.code, each.item]),
    [
      ["invalid_request", 1],
      ["invalid_request", 2],
      ["insufficient_tokens", null],
    ],
  );
});

test("many jobs are one batch, or none", async () => {
  const items = [1, 2].map((strength) => ({ video: clip(), prompt: "a cat", strength }));
  const batch = await callsheet.batch(given.idle, items, { clientReference: "pair", metadata: { page: "3" } });
  assert.deepEqual([batch.now.items, batch.now.cost, batch.now.metadata], [2, 2 * given.cost, { page: "3" }]);
  const shared = clip();
  const lists = { video: [shared, shared], prompt: ["a cat"], strength: [1, 2, 3] };
  const grid = await callsheet.batch(given.idle, lists);
  const jobs = await Promise.all((await grid.jobs()).map((job) => job.refresh()));
  assert.deepEqual(jobs.map((job) => job.input_payload?.strength).toSorted(), [1, 1, 2, 2, 3, 3]);
  assert.equal(new Set(jobs.flatMap((job) => job.inputs?.map((each) => each.file_id))).size, 1);
  await assert.rejects(batch.wait({ timeoutSeconds: 0.1 }), NotEnded);
  for (const each of [batch, grid]) await each.cancel();
  const seen: string[] = [];
  assert.equal((await batch.wait({ onProgress: ({ status }) => seen.push(status) })).now.counts.canceled, 2);
  assert.equal(seen.at(-1), "finished");
  const zipped = { ...lists, video: [shared, shared, shared], mood: [1, 2, 3] };
  await assert.rejects(callsheet.batch(given.idle, zipped, { mode: "zipped" }), /mood: .* has no such property/);
});

test("all effects are listed", async () => {
  const slugs = (await callsheet.effects()).map((effect) => effect.slug);
  assert.ok([given.effect, given.idle, given.dear].every((slug) => slugs.includes(slug)));
});

test("a webhook that another library signed is verified", async () => {
  const { headers, body, secret, other } = given.webhook;
  assert.deepEqual(await verify(headers, body, secret), JSON.parse(body));
  assert.deepEqual(await verify(new Headers(headers), Buffer.from(body), [other, secret]), JSON.parse(body));
  const refused: [Record<string, string>, string, string][] = [
    [headers, `${body} `, secret],
    [headers, body, other],
    [{}, body, secret],
    [{ ...headers, "webhook-timestamp": "1" }, body, secret],
    [{ ...headers, "webhook-signature": "v1,%%% v2,AAAA" }, body, secret],
  ];
  for (const each of refused) await assert.rejects(verify(...each), WebhookRefused);
  await assert.rejects(verify(headers, body, "whsec_c2hvcnQ="), /16 bytes or more/);
});
