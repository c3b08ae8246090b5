import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone, notifyError } from "@/parts/notify";
import type { Asset } from "@/parts/workflow/queries";
import { isAssetType, uploadAsset } from "@/parts/workflow/uploadAsset";
import { assetsTexts } from "@/texts/assets";

export function useUploadAsset() {
  const client = useQueryClient();
  const [percent, setPercent] = useState(0);
  const upload = useMutation({
    mutationFn: (file: File) => {
      if (!isAssetType(file)) throw new Error(assetsTexts.wrongType(file.name));
      setPercent(0);
      return uploadAsset(file, ({ loaded, total }) => setPercent(Math.floor((100 * loaded) / Math.max(1, total))));
    },
    onSuccess: (asset) => void notifyDone(assetsTexts.uploaded(asset.name)),
    onError: (error) => void notifyError(error),
    onSettled: () => client.invalidateQueries({ queryKey: keys.assets }),
  });
  return { ...upload, percent };
}

export function useDeleteAsset(onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (asset: Asset) =>
      api.DELETE("/api/admin/assets/{asset_id}", { params: { path: { asset_id: asset.id } } }),
    onSuccess: (_, asset) => {
      onDone();
      void notifyDone(assetsTexts.deleted(asset.name));
    },
    onSettled: () => client.invalidateQueries({ queryKey: keys.assets }),
  });
}
