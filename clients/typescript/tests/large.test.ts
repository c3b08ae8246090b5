// Uploads in parts of 5 MiB, against a control plane that tests/api/test_large_uploads.py at the top starts.
import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Callsheet, UnusableFile } from "callsheet";
import { fileAt } from "callsheet/node";

const given = JSON.parse(process.env.CALLSHEET_TESTS ?? "{}");
const PART = 5 * 2 ** 20;
const START = Buffer.from(given.video, "base64");

/** A clip of three parts. `mark` is a byte of the first part that no sample has. */
function clip(name: string, mark = 0): { content: Buffer; file: File } {
  const content = Buffer.alloc(2 * PART + 1000, name);
  START.copy(content);
  content[400_000] = mark;
  return { content, file: new File([content], `${name}.mp4`) };
}

type Answer = (url: URL, init: RequestInit) => Promise<Response | null> | Response | null;

/** A client whose PUTs to the storage get these answers, or that of the storage for null. Counts those that arrive. */
function client(answer: Answer = () => null) {
  const stored: number[] = [];
  const answered: typeof fetch = async (target, init = {}) => {
    const url = new URL(String(target));
    if (init.method !== "PUT") return fetch(target, init);
    const own = await answer(url, init);
    if (own !== null) {
      await (init.body as ReadableStream | null)?.cancel();
      return own;
    }
    const response = await fetch(target, init);
    if (response.ok) stored.push(partOf(url));
    return response;
  };
  return { callsheet: new Callsheet(given.url, given.key, { retrySeconds: 20, fetch: answered }), stored };
}

function partOf(url: URL): number {
  return Number(url.searchParams.get("partNumber") ?? url.pathname.split("/").at(-1));
}

async function bytesOf(url: string | null | undefined): Promise<Buffer> {
  return Buffer.from(await (await fetch(String(url))).arrayBuffer());
}

/** Uploads until a part arrives that was not asked for; then the program ends. */
async function interrupted(file: File, parts: number[]): Promise<void> {
  const stop = new AbortController();
  const { callsheet, stored } = client(async (url) => {
    if (parts.includes(partOf(url))) return null;
    while (parts.some((part) => !stored.includes(part))) await new Promise((next) => setTimeout(next, 5));
    stop.abort(new Error("The program ends."));
    return Response.error();
  });
  await assert.rejects(callsheet.upload(file, { signal: stop.signal }), /The program ends/);
}

test("another program sends only the parts that are missing", async () => {
  const { content } = clip("restarted");
  const path = join(await mkdtemp(join(tmpdir(), "callsheet-")), "restarted.mp4");
  await writeFile(path, content);
  await interrupted(await fileAt(path), [1, 3]);
  const { callsheet, stored } = client();
  const seen: [number, number][] = [];
  const file = await callsheet.upload(await fileAt(path), { onProgress: (...sent) => seen.push(sent) });
  assert.deepEqual([file.status, stored], ["ready", [2]]);
  assert.deepEqual(seen.at(-1), [content.length, content.length]);
  assert.ok((await bytesOf(file.url)).equals(content));
});

test("a lost connection or a passing failure of the storage costs only the part", async () => {
  const failures = [
    Response.error,
    () => new Response(null, { status: 500 }),
    () => new Response(null, { status: 503 }),
  ];
  const { callsheet, stored } = client(() => {
    const failure = failures.shift();
    if (failure === Response.error) throw new TypeError("fetch failed");
    return failure?.() ?? null;
  });
  const { content, file } = clip("lost");
  const sent = await callsheet.upload(file);
  assert.deepEqual([stored.toSorted(), sent.size, failures.length], [[1, 2, 3], content.length, 0]);
});

test("a file with the same samples and other bytes is another file", async () => {
  await interrupted(clip("edited").file, [1]);
  const { content, file } = clip("edited", 7);
  const { callsheet, stored } = client();
  const sent = await callsheet.upload(file);
  assert.ok((await bytesOf(sent.url)).equals(content));
  assert.ok([1, 2, 3].every((part) => stored.includes(part)));
});

test("a program whose upload was confirmed by another one gets the same file", async () => {
  const { file } = clip("twice");
  let confirmed: (id: string) => void = () => {};
  const first = new Promise<string>((resolve) => {
    confirmed = resolve;
  });
  const slow = client(async (url) => {
    if (partOf(url) === 2) await first;
    return null;
  });
  const waiting = slow.callsheet.upload(file);
  const { id } = await client().callsheet.upload(file);
  confirmed(id);
  assert.equal((await waiting).id, id);
});

test("a file that changes while it is uploaded is refused with a sentence", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "callsheet-")), "changed.mp4");
  await writeFile(path, clip("changed").content);
  const file = await fileAt(path);
  await writeFile(path, "shorter");
  await assert.rejects(client().callsheet.upload(file), UnusableFile);
});
