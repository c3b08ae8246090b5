// An event that arrives while a response is in flight is not lost behind that response, which is older.
import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { keys } from "../src/api/keys";
import { refetch, showWallet } from "../src/api/live";
import type { Wallet } from "../src/api/types";

test("a first response that is in flight when a job ends is requested again", async () => {
  const client = new QueryClient();
  const responses: ((status: string) => void)[] = [];
  const queryFn = () => new Promise<string>((resolve) => responses.push(resolve));
  const observer = new QueryObserver(client, { queryKey: ["job", "1"], queryFn });
  const leave = observer.subscribe(() => undefined);
  const refetched = refetch(client, ["job"]);
  expect(responses).toHaveLength(1);
  responses[0]?.("processing");
  await refetched;
  await expect.poll(() => responses.length).toBe(2);
  responses[1]?.("completed");
  await expect.poll(() => observer.getCurrentResult().data).toBe("completed");
  leave();
});

test("a response that has arrived is requested once", async () => {
  const client = new QueryClient();
  let requests = 0;
  const observer = new QueryObserver(client, { queryKey: ["job", "1"], queryFn: () => Promise.resolve(++requests) });
  const leave = observer.subscribe(() => undefined);
  await expect.poll(() => observer.getCurrentResult().data).toBe(1);
  await refetch(client, ["job"]);
  expect(requests).toBe(2);
  leave();
});

test("a first response that fails while a job ends is not requested again, so the page shows the reason", async () => {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const requests: ((reason: Error) => void)[] = [];
  const queryFn = () => new Promise<string>((_, reject) => requests.push(reject));
  const observer = new QueryObserver(client, { queryKey: ["job", "1"], queryFn });
  const leave = observer.subscribe(() => undefined);
  const refetched = refetch(client, ["job"]);
  requests[0]?.(new Error("away"));
  await refetched;
  expect(requests).toHaveLength(1);
  expect(observer.getCurrentResult().error?.message).toBe("away");
  leave();
});

test("a wallet that arrives as an event is newer than the response in flight", async () => {
  const client = new QueryClient();
  const [before, after] = [5, 0].map((held) => ({ balance: 1000 - held, held }) as unknown as Wallet);
  let respond: (wallet: Wallet | undefined) => void = () => undefined;
  const queryFn = () => new Promise<Wallet | undefined>((resolve) => (respond = resolve));
  const observer = new QueryObserver(client, { queryKey: keys.wallet, queryFn });
  const leave = observer.subscribe(() => undefined);
  const shown = showWallet(client, after as Wallet);
  respond(before);
  await shown;
  await expect.poll(() => observer.getCurrentResult().fetchStatus).toBe("idle");
  expect(observer.getCurrentResult().data).toEqual(after);
  leave();
});
