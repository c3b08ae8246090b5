// Files of a disk, for Node.
import { createHash, type Hash, randomUUID } from "node:crypto";
import { openAsBlob } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { ResultFile } from "./job.ts";
import { UnusableFile } from "./problems.ts";
import type { Counted } from "./sending.ts";
import { check, mediaType } from "./transfers.ts";

/** A file of the disk, as a value for a client. It is read while it is uploaded. */
export async function fileAt(path: string): Promise<File> {
  const name = basename(path);
  const type = mediaType("", name);
  try {
    return new File([await openAsBlob(path, { type })], name, { type });
  } catch (error) {
    throw new UnusableFile(`${path} cannot be read.`, { cause: error });
  }
}

/** Downloads a file. It gets its name only when it is complete and its checksum is right. */
export async function save(file: ResultFile, path: string, onProgress?: Counted): Promise<string> {
  // The temporary name is not derived from the name, which may have the maximum length.
  const part = join(dirname(path), `.${randomUUID()}.part`);
  const handle = await writable(path, () => open(part, "ax"));
  try {
    check(file.described, await write(file, handle, onProgress));
    await handle.close();
    await writable(path, () => rename(part, path));
  } finally {
    await handle.close();
    await rm(part, { force: true });
  }
  return path;
}

async function write(file: ResultFile, handle: FileHandle, onProgress: Counted | undefined): Promise<string> {
  let hash: Hash = createHash("sha256");
  const sink = {
    restart: async () => {
      hash = createHash("sha256");
      await handle.truncate(0);
    },
    write: async (piece: Uint8Array) => {
      hash.update(piece);
      await writable(file.name, () => handle.appendFile(piece));
    },
  };
  await file.into(sink, { onProgress });
  return hash.digest("hex");
}

async function writable<Value>(path: string, work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    throw new UnusableFile(`${path} cannot be written.`, { cause: error });
  }
}
