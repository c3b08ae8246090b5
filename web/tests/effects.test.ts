import { expect, test } from "vitest";
import type { Effect } from "@/api/types";
import { nextIndex } from "@/pages/effects/useGridKeys";
import { categoriesOf, kindName, matches, roughly, waitLine } from "@/parts/effects";
import { artOf } from "@/parts/landscape";
import { clock, kindOf, mediaOf, ratioOf } from "@/parts/media";
import { paceOf } from "@/parts/player/useVideoSync";
import { Speed } from "@/parts/upload/speed";

const noir = {
  name: "Film noir",
  description: "Hard light.",
  category: "Color",
  is_available: true,
  input: { type: "video", label: "input", description: "", accept: [] },
  output: { type: "video", mime_type: "video/mp4" },
  wait: { code: "ready", message: "A worker is free.", wait_seconds: 0, run_seconds: 27 },
} as unknown as Effect;

test("a wait is a few words and a readiness", () => {
  expect(waitLine(noir)).toEqual({ text: "Ready in about 30 s", readiness: "ready" });
  const queue = {
    code: "queue",
    message: "2 jobs are ahead; it starts in about 40 seconds.",
    wait_seconds: 40,
  } as const;
  expect(waitLine({ ...noir, wait: queue })).toMatchObject({ text: "2 jobs are ahead", readiness: "waits" });
  expect(waitLine({ ...noir, wait: { code: "no_live_worker", message: "" } })).toEqual({
    text: "No worker online",
    readiness: "unavailable",
  });
  expect(waitLine({ ...noir, is_available: false }).readiness).toBe("unavailable");
  expect(waitLine({ ...noir, wait: null, last_processing_time_seconds: null }).text).toBe("Ready to start");
});

test("estimated times are round", () => {
  expect([0.2, 7.6, 12, 54, 80, 3_400].map(roughly)).toEqual(["1 s", "8 s", "15 s", "55 s", "1 min", "1 h"]);
});

test("effects are found by words in any order", () => {
  expect(["", "noir", "NOIR film", "light color", "video"].map((search) => matches(noir, search))).toEqual([
    true,
    true,
    true,
    true,
    true,
  ]);
  expect(matches(noir, "noir sepia")).toBe(false);
  expect(categoriesOf([noir, { ...noir, category: "Art" }, { ...noir, category: "" }, noir])).toEqual(["Art", "Color"]);
});

test("a kind says what is taken and made", () => {
  expect(kindName(noir)).toBe("Video");
  expect(kindName({ ...noir, input: null, output: { type: "image", mime_type: "image/png" } })).toBe("Text to image");
  expect(kindName({ ...noir, output: { type: "image", mime_type: "image/png" } })).toBe("Video to image");
});

test("arrow keys move in a grid and stop at its edges", () => {
  expect([
    nextIndex("ArrowRight", 0, 8, 4),
    nextIndex("ArrowDown", 1, 8, 4),
    nextIndex("ArrowUp", 1, 8, 4),
    nextIndex("End", 1, 8, 4),
    nextIndex("a", 1, 8, 4),
  ]).toEqual([1, 5, null, 7, null]);
});

test("the same name gives the same landscape, another name another", () => {
  expect(artOf("Glow")).toEqual(artOf("Glow"));
  expect(artOf("Glow").sky).not.toEqual(artOf("Noir").sky);
});

test("a video follows another of a different length by share", () => {
  expect([paceOf(6, 3), paceOf(3, 3.01), paceOf(NaN, 3), paceOf(0, 3)]).toEqual([0.5, 1, 1, 1]);
});

test("the box of a medium has its shape before it has loaded", () => {
  expect([ratioOf(null), ratioOf({ width: 640, height: 360 }), ratioOf({ width: 100, height: 1_000 })]).toEqual([
    16 / 9,
    640 / 360,
    9 / 16,
  ]);
  expect([kindOf("video/mp4"), kindOf("application/json"), kindOf("application/zip")]).toEqual([
    "video",
    "text",
    "other",
  ]);
  expect(mediaOf({ mime_type: "video/mp4", url: null })).toBeNull();
  expect([7.9, 62, 3_605, NaN].map(clock)).toEqual(["0:07", "1:02", "1:00:05", "0:00"]);
});

test("speed is known after a moment, over the last seconds", () => {
  const speed = new Speed();
  expect(speed.add(0, 0)).toBeNull();
  expect(speed.add(1_000, 100)).toBeNull();
  expect(speed.add(5_000, 1_000)).toBe(5_000);
});
