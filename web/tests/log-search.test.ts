import { describe, expect, it } from "vitest";
import { logSearch, MAX_REQUESTS, type OperatorEvent, requestsOf } from "@/pages/operate/job/log-search";

function event(seq: number, request_id: string | null): OperatorEvent {
  return {
    job_id: "job",
    seq,
    event: "job.transition",
    actor: "relay",
    at: `2026-03-04T12:00:${String(seq).padStart(2, "0")}.123Z`,
    request_id,
  };
}

describe("the search of the log", () => {
  it("finds the job and each of its requests", () => {
    const events = [event(1, "one"), event(2, "one"), event(3, null), event(4, "two")];
    expect(logSearch("01a1", events)).toBe(
      'journalctl -u callsheet -o cat --since "2026-03-04 11:59:01 UTC" | grep -E "01a1|one|two"',
    );
  });

  it("finds the job if no request is known", () => {
    expect(logSearch("01a1", [])).toBe('journalctl -u callsheet -o cat | grep -E "01a1"');
  });

  it("names the newest requests only", () => {
    const events = Array.from({ length: MAX_REQUESTS + 5 }, (_, index) => event(index + 1, `r${index}`));
    expect(requestsOf(events)).toHaveLength(MAX_REQUESTS);
    expect(requestsOf(events)[0]).toBe("r5");
  });
});
