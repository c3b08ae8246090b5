import { expect, test } from "vitest";
import { decoded } from "@/parts/workflow/decoded";

const bytes = (...values: number[]) => new Uint8Array(values).buffer;

test("a file is read in the encoding of its byte order mark, without the mark", () => {
  expect(decoded(bytes(0x7b, 0xc3, 0xbc, 0x7d))).toBe("{ü}");
  expect(decoded(bytes(0xef, 0xbb, 0xbf, 0x7b, 0xc3, 0xbc, 0x7d))).toBe("{ü}");
  expect(decoded(bytes(0xff, 0xfe, 0x7b, 0, 0xfc, 0, 0x7d, 0))).toBe("{ü}");
  expect(decoded(bytes(0xfe, 0xff, 0, 0x7b, 0, 0xfc, 0, 0x7d))).toBe("{ü}");
  expect(decoded(bytes())).toBe("");
  expect(decoded(bytes(0x31))).toBe("1");
});
