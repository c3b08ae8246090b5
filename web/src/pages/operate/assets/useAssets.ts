import { useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone } from "@/parts/notify";
import { useAction, useSave } from "@/parts/useAction";
import type { Asset } from "@/parts/workflow/queries";
import { isAssetType, uploadAsset } from "@/parts/workflow/uploadAsset";
import { assetsTexts } from "@/texts/assets";

export function useUploadAsset() {
  const [percent, setPercent] = useState(0);
  const upload = useAction({
    mutationFn: (file: File) => {
      if (!isAssetType(file)) throw new Error(assetsTexts.wrongType(file.name));
      setPercent(0);
      return uploadAsset(file, ({ loaded, total }) => setPercent(Math.floor((100 * loaded) / Math.max(1, total))));
    },
    onSuccess: (asset) => void notifyDone(assetsTexts.uploaded(asset.name)),
    changes: [keys.assets],
  });
  return { ...upload, percent };
}

export function useDeleteAsset(onDone: () => void) {
  return useSave({
    mutationFn: (asset: Asset) =>
      api.DELETE("/api/admin/assets/{asset_id}", { params: { path: { asset_id: asset.id } } }),
    changes: [keys.assets],
    onSuccess: (_, asset) => notifyDone(assetsTexts.deleted(asset.name)),
    onDone,
  });
}
