import { beforeEach, describe, expect, it } from "vitest";
import { rememberedSearch, rememberList } from "@/parts/list-search";

class Memory implements Storage {
  private readonly values = new Map<string, string>();
  isFull = false;
  get length() {
    return this.values.size;
  }
  clear = () => this.values.clear();
  getItem = (key: string) => this.values.get(key) ?? null;
  key = (index: number) => [...this.values.keys()][index] ?? null;
  removeItem = (key: string) => void this.values.delete(key);
  setItem = (key: string, value: string) => {
    if (this.isFull) throw new DOMException("full", "QuotaExceededError");
    this.values.set(key, value);
  };
}

describe("the way back to a list", () => {
  let storage: Memory;
  beforeEach(() => {
    storage = new Memory();
  });
  it("has the filters that the list had last", () => {
    rememberList("/operate/jobs", { status: "failed", q: undefined, workflow: "upscale" }, storage);
    rememberList("/operate/workers", { view: "all" }, storage);
    expect(rememberedSearch("/operate/jobs", storage)).toEqual({ status: "failed", workflow: "upscale" });
    rememberList("/operate/jobs", {}, storage);
    expect(rememberedSearch("/operate/jobs", storage)).toEqual({});
    expect(rememberedSearch("/operate/workers", storage)).toEqual({ view: "all" });
  });
  it("does not open a dialog again", () => {
    rememberList("/operate/effects", { new: "upscale", q: "noir" }, storage);
    expect(rememberedSearch("/operate/effects", storage)).toEqual({ q: "noir" });
  });
  it("keeps nothing of other pages", () => {
    rememberList("/operate/jobs/1", { tab: "money" }, storage);
    expect(storage.length).toBe(0);
  });
  it("leads to the whole list where nothing can be kept or read", () => {
    storage.isFull = true;
    rememberList("/runs", { status: "active" }, storage);
    expect(rememberedSearch("/runs", storage)).toEqual({});
    storage.isFull = false;
    for (const text of ["[1]", "null", "{"]) {
      storage.setItem("callsheet:list:/runs", text);
      expect(rememberedSearch("/runs", storage)).toEqual({});
    }
  });
});
