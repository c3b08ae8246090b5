// Files of the catalog: uploaded straight to storage, then checked by the server.
import { shortName } from "@client/sending";
import { api, data } from "@/api/client";
import { put, type Sent } from "@/api/uploads";
import { typeOf } from "@/parts/upload/acceptance";
import type { Asset } from "./queries";

/** Whether the catalog accepts such a file. */
export function isAssetType(file: File): boolean {
  return /^(image|video|audio)\//.test(typeOf(file));
}

export async function uploadAsset(
  file: File,
  onSent: (sent: Sent) => void = () => undefined,
  signal: AbortSignal = new AbortController().signal,
): Promise<Asset> {
  const body = { name: shortName(file.name), mime_type: typeOf(file), size: file.size };
  const created = await data(api.POST("/api/admin/assets", { body, signal }));
  const path = { asset_id: created.asset.id };
  try {
    await put(created, file, onSent, signal);
    return await data(api.POST("/api/admin/assets/{asset_id}/confirm", { params: { path }, signal }));
  } catch (error) {
    // A failed upload leaves nothing in the list.
    await api.DELETE("/api/admin/assets/{asset_id}", { params: { path } }).catch(() => undefined);
    throw error;
  }
}
