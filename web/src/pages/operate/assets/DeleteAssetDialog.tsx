import { ConfirmDialog } from "@/parts/ConfirmDialog";
import type { Asset } from "@/parts/workflow/queries";
import { assetsTexts } from "@/texts/assets";
import { UseLinks } from "./UseLinks";
import { useDeleteAsset } from "./useAssets";

/** Asks before an asset is deleted. If the asset is in use, the dialog lists the places. */
export function DeleteAssetDialog({ asset, onClose }: { asset: Asset; onClose: () => void }) {
  const remove = useDeleteAsset(onClose);
  const uses = asset.used_by ?? [];
  const isUsed = uses.length > 0;
  return (
    <ConfirmDialog
      danger
      title={isUsed ? assetsTexts.inUseTitle(asset.name) : assetsTexts.deleteTitle(asset.name)}
      text={isUsed ? assetsTexts.inUseText : assetsTexts.deleteText}
      action={!isUsed && assetsTexts.deleteIt}
      keep={assetsTexts.keep}
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate(asset)}
      onClose={onClose}
    >
      {isUsed && <UseLinks uses={uses} />}
    </ConfirmDialog>
  );
}
