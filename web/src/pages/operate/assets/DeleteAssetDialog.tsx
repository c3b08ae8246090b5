import { explain } from "@/api/problems";
import { Button, Dialog } from "@/design";
import type { Asset } from "@/parts/workflow/queries";
import { assetsTexts } from "@/texts/assets";
import { UseLinks } from "./UseLinks";
import { useDeleteAsset } from "./useAssets";

/** Asks before an asset is deleted. If the asset is in use, the dialog lists the places. */
export function DeleteAssetDialog({ asset, onClose }: { asset: Asset; onClose: () => void }) {
  const remove = useDeleteAsset(onClose);
  const uses = asset.used_by ?? [];
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={uses.length > 0 ? assetsTexts.inUseTitle(asset.name) : assetsTexts.deleteTitle(asset.name)}
      text={uses.length > 0 ? assetsTexts.inUseText : assetsTexts.deleteText}
      actions={
        <>
          <Button onClick={onClose}>{assetsTexts.keep}</Button>
          {uses.length === 0 && (
            <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate(asset)}>
              {assetsTexts.deleteIt}
            </Button>
          )}
        </>
      }
    >
      {uses.length > 0 && <UseLinks uses={uses} />}
      {remove.error !== null && (
        <p role="alert" className="text-s text-bad">
          {explain(remove.error)}
        </p>
      )}
    </Dialog>
  );
}
