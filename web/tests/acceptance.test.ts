import { expect, test } from "vitest";
import {
  acceptanceOf,
  accepted,
  acceptOf,
  bytes,
  looksLikeText,
  measuredRefusal,
  refusal,
  seconds,
  typeOf,
} from "@/parts/upload/acceptance";

const limits = {
  accepted_types: ["video/*", "image/png", "image/jpeg"],
  max_bytes: 5_000_000_000,
  max_image_pixels: 100_000_000,
};
const video = acceptanceOf("video", { max_bytes: 2_000_000 }, limits);
const image = acceptanceOf("image", { accept: [] }, limits);

test("a file of the right type and size is taken", () => {
  expect(refusal({ name: "a.mp4", type: "video/mp4", size: 10 }, video)).toBeNull();
  expect(refusal({ name: "A.MOV", type: "", size: 10 }, video)).toBeNull();
});

test("a refusal says what would be accepted", () => {
  expect(refusal({ name: "a.pdf", type: "application/pdf", size: 10 }, video)).toBe(
    "“a.pdf” is not a video that can be used here. Accepted: MP4, MOV, WebM and others, up to 2 MB.",
  );
  expect(refusal({ name: "a.gif", type: "image/gif", size: 10 }, image)).toContain(
    "Accepted: PNG or JPEG, up to 5 GB.",
  );
  expect(refusal({ name: "a.mp4", type: "video/mp4", size: 3_400_000 }, video)).toContain("is too large (3.4 MB)");
  expect(refusal({ name: "a.mp4", type: "video/mp4", size: 0 }, video)).toContain("is empty");
});

test("what the browser finds in a file is checked too", () => {
  expect(measuredRefusal("a.png", { width: 20_000, height: 10_000 }, image)).toContain("up to 100 megapixels");
  expect(measuredRefusal("a.png", { width: 200, height: 100 }, image)).toBeNull();
  expect(measuredRefusal("a.mp4", { seconds: 75 }, { ...video, maxSeconds: 60 })).toContain("is too long (1 min 15 s)");
  expect(measuredRefusal("a.mp4", {}, { ...video, maxSeconds: 60 })).toBeNull();
});

test("a browser that does not know a type is helped by the name", () => {
  expect(typeOf({ name: "a.mkv", type: "" })).toBe("video/x-matroska");
  expect(typeOf({ name: "a.mkv", type: "video/mp4; codecs=avc1" })).toBe("video/mp4");
  expect(typeOf({ name: "noname", type: "" })).toBe("application/octet-stream");
  expect(typeOf({ name: "a.opus", type: "" })).toBe("audio/ogg");
});

test("a container of videos that has sound is taken as a sound", () => {
  const audio = acceptanceOf("audio", { accept: ["audio/*"] }, limits);
  for (const type of ["video/ogg", "video/webm", "audio/x-wav"])
    expect(refusal({ name: "a", type, size: 10 }, audio)).toBeNull();
  expect(typeOf({ name: "a.ogg", type: "video/ogg" }, "audio")).toBe("audio/ogg");
  expect(typeOf({ name: "a.ogg", type: "video/ogg" }, "video")).toBe("video/ogg");
  expect(refusal({ name: "a.mp4", type: "video/mp4", size: 10 }, audio)).toContain(
    "is not an audio file that can be used here",
  );
  expect(measuredRefusal("a.mp3", { seconds: 75 }, { ...audio, maxSeconds: 60 })).toContain("is too long (1 min 15 s)");
});

test("the file chooser offers what is taken", () => {
  expect(acceptOf(image)).toBe("image/png,image/jpeg");
  expect(acceptOf({ kind: "audio" })).toBe("audio/*");
  expect(accepted({ kind: "audio", maxSeconds: 90 })).toBe("MP3, WAV, FLAC and others, at most 1 min 30 s long");
});

test("sizes and times read easily", () => {
  expect([0, 999, 1_000, 208_497, 5_368_709_120].map(bytes)).toEqual([
    "0 bytes",
    "999 bytes",
    "1 kB",
    "208 kB",
    "5.4 GB",
  ]);
  expect([3.02, 60, 75].map(seconds)).toEqual(["3 s", "1 min", "1 min 15 s"]);
});

test("bytes that are nothing but readable characters are no media", () => {
  const head = (text: string) => new TextEncoder().encode(text);
  expect(looksLikeText("video/mp4", head("hello,\r\n\tworld"))).toBe(true);
  expect(looksLikeText("video/mp4", head("\u0000\u0000\u0000 ftypisom"))).toBe(false);
  expect(looksLikeText("image/jpeg", Uint8Array.of(0xff, 0xd8, 0xff))).toBe(false);
  expect(looksLikeText("image/svg+xml", head("<svg/>"))).toBe(false);
});
