// What happens while a page asks for the first time is not lost behind an answer that is older.
import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { refetch } from "../src/api/live";

test("a first answer that is on its way when a job ends is confirming for again", async () => {
  const client = new QueryClient();
  const answers: ((status: string) => void)[] = [];
  const queryFn = () => new Promise<string>((resolve) => answers.push(resolve));
  const observer = new QueryObserver(client, { queryKey: ["job", "1"], queryFn });
  const leave = observer.subscribe(() => undefined);
  const asking = refetch(client, ["job"]);
  expect(answers).toHaveLength(1);
  answers[0]?.("processing");
  await asking;
  await expect.poll(() => answers.length).toBe(2);
  answers[1]?.("completed");
  await expect.poll(() => observer.getCurrentResult().data).toBe("completed");
  leave();
});

test("an answer that is there is confirming for once", async () => {
  const client = new QueryClient();
  let confirming = 0;
  const observer = new QueryObserver(client, { queryKey: ["job", "1"], queryFn: () => Promise.resolve(++confirming) });
  const leave = observer.subscribe(() => undefined);
  await expect.poll(() => observer.getCurrentResult().data).toBe(1);
  await refetch(client, ["job"]);
  expect(confirming).toBe(2);
  leave();
});
