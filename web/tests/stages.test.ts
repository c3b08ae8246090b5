import { describe, expect, it } from "vitest";
import { roughly, secondsLeft, stageOf, stagesOf, stepOf } from "@/parts/job/stages";

const submitted_at = "2026-01-01T00:00:00Z";
const at = (seconds: number) => Date.parse(submitted_at) + seconds * 1000;
const time = (seconds: number) => new Date(at(seconds)).toISOString();
const progress = (message: string | null, seconds: number, elapsed: number) => ({
  job_id: "1",
  percent: 50,
  message,
  elapsed_ms: elapsed * 1000,
  updated_at: time(seconds),
});

describe("the stages of a job", () => {
  it("waits until it is taken", () => {
    expect(stagesOf({ status: "queued", submitted_at, started_at: null, progress: null }, at(7))[0]).toEqual({
      name: "queued",
      state: "now",
      seconds: 7,
    });
  });
  it("prepares until its worker says something", () => {
    expect(stageOf({ status: "processing", progress: null })).toBe("preparing");
    expect(stageOf({ status: "processing", progress: { job_id: "1", updated_at: submitted_at } })).toBe("preparing");
  });
  it("tells how long each took", () => {
    const job = {
      status: "processing" as const,
      submitted_at,
      started_at: time(2),
      progress: progress("KSampler 1/2", 10, 5),
    };
    expect(stagesOf(job, at(12)).map((stage) => [stage.state, stage.seconds])).toEqual([
      ["done", 2],
      ["done", 3],
      ["now", 7],
      ["next", null],
    ]);
  });
  it("saves once the worker uploads", () => {
    const job = {
      status: "processing" as const,
      submitted_at,
      started_at: time(2),
      progress: progress("Uploading the result", 10, 5),
    };
    expect(stagesOf(job, at(11)).map((stage) => stage.seconds)).toEqual([2, 3, 5, 1]);
  });
});

describe("what an engine says", () => {
  it.each([
    ["KSampler 12/20", { node: "KSampler", step: "12", steps: "20" }],
    ["LightboxTextToImage 1/8", { node: "Text To Image", step: "1", steps: "8" }],
    ["Writing the text", { node: "Writing the text", step: null, steps: null }],
    ["<b>x</b> 1/2", { node: "<b>x</b>", step: "1", steps: "2" }],
  ])("%s", (message, step) => expect(stepOf(message)).toEqual(step));
  it("counts down between two answers", () => {
    expect(secondsLeft({ eta_seconds: 20 }, at(0), at(5))).toBe(15);
    expect(secondsLeft({ eta_seconds: 20 }, at(0), at(50))).toBe(0);
    expect(secondsLeft({ eta_seconds: null }, at(0), at(50))).toBeNull();
  });
  it.each([
    [0.2, "1 s"],
    [22, "20 s"],
    [170, "3 min"],
    [4800, "1 h 20 min"],
    [7200, "2 h"],
  ])("%s seconds are %s", (seconds, text) => expect(roughly(seconds)).toBe(text));
});
