import { describe, expect, it } from "vitest";
import { draftOf, problemsIn, requestOf, scalingPlan } from "@/pages/operate/fleet/scaling-draft";
import {
  changePlan,
  changesOf,
  creationPlan,
  wholeNumber,
  workflowChange,
  workflowPlan,
} from "@/parts/fleet/fleet-changes";

const FLEET = { name: "Demo", is_active: true, desired_workers: null, live_workers: 2 };

describe("a change of a fleet", () => {
  it("sends only what differs and says what it does", () => {
    expect(changesOf(FLEET, { name: "Demo", is_active: true, desired_workers: null })).toEqual({});
    expect(changePlan(FLEET, { name: "Demo", is_active: true, desired_workers: null })).toEqual(["Nothing changes."]);
    const draft = { name: "Farm", is_active: false, desired_workers: 1 };
    expect(changesOf(FLEET, draft)).toEqual(draft);
    const plan = changePlan(FLEET, draft).join(" ");
    expect(plan).toContain("shown as Farm");
    expect(plan).toContain("no new jobs: 2 are live");
    expect(plan).toContain("wants 1 worker.");
  });

  it("can take back the wanted number", () => {
    const fleet = { ...FLEET, desired_workers: 3 };
    expect(changesOf(fleet, { name: "Demo", is_active: true, desired_workers: null })).toEqual({
      desired_workers: null,
    });
  });

  it("reads whole numbers only", () => {
    expect([wholeNumber(" 12 "), wholeNumber(""), wholeNumber("1.5"), wholeNumber("-1"), wholeNumber("many")]).toEqual([
      12,
      null,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("says what workers of a new fleet get", () => {
    expect(creationPlan("gpu", "staging", 0)[0]).toContain("register for gpu in stage staging get no jobs");
    expect(creationPlan("gpu", "staging", 2)[0]).toContain("get jobs of 2 workflows");
  });

  it("names jobs that wait for a workflow that is taken away", () => {
    const queues = [
      { workflow: "a", queued: 2, delayed: 1 },
      { workflow: "b", queued: 0, delayed: 0 },
    ];
    expect(workflowPlan(workflowChange(["a", "b"], ["b", "a"]), queues)).toEqual(["Nothing changes."]);
    const plan = workflowPlan(workflowChange(["a", "b"], ["c"]), queues);
    expect(plan).toEqual([
      expect.stringContaining("jobs of c"),
      expect.stringContaining("no more jobs of a, b"),
      expect.stringContaining("3 jobs of a wait"),
    ]);
  });
});

describe("the scaling rules in a form", () => {
  it("start with the defaults of the API and are sent as numbers", () => {
    const draft = draftOf(null, "process", { lightbox: true });
    const request = requestOf(draft, { lightbox: true });
    expect(request).toMatchObject({
      driver: "process",
      options: { lightbox: true },
      providers: ["self_hosted"],
      minimum: 0,
      maximum: 1,
      target_seconds: 120,
    });
  });

  it("say what the autoscaler does", () => {
    const draft = draftOf(null, "process", {});
    const numbers = { ...draft, minimum: "3", maximum: "5" };
    const plan = scalingPlan(numbers, { live_workers: 1 }, null).join(" ");
    expect(plan).toContain("between 3 and 5 workers");
    expect(plan).toContain("orders 2 workers at once");
    expect(scalingPlan({ ...numbers, minimum: "0" }, { live_workers: 7 }, null).join(" ")).toContain(
      "2 live workers are above the largest number",
    );
  });

  it("say nothing about numbers that are none or contradict each other", () => {
    const draft = draftOf(null, "process", {});
    const wrong = { ...draft, maximum: "lots" };
    expect(Object.keys(problemsIn(wrong))).toEqual(["maximum"]);
    expect(scalingPlan(wrong, { live_workers: 0 }, null)).toEqual([]);
    expect(scalingPlan({ ...draft, minimum: "2" }, { live_workers: 0 }, null)).toEqual([]);
  });
});
