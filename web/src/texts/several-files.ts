import { choose, counted, formatNumber } from "./plurals";

export const severalFilesTexts = {
  chosen: (count: number) => counted(count, "file"),
  text: "Each file becomes a job with the values below. All of them are one batch.",
  none: "No file chosen",
  add: "Add files",
  clear: "Remove all",
  remove: (name: string) => `Remove ${name}`,
  retry: (name: string) => `Upload ${name} again`,
  waiting: "Waits for its upload",
  uploaded: (done: number, count: number) => `${formatNumber(done)} of ${counted(count, "file")} uploaded`,
  tooMany: (limit: number) => `A batch has at most ${counted(limit, "file")}. The others were left out.`,
  notUploaded: (count: number) =>
    `${counted(count, "file")} cannot be used. ${choose(count, "Remove it, or try it again.", "Remove them, or try them again.")}`,
};
