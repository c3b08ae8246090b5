import { useInfiniteQuery } from "@tanstack/react-query";
import { ImagePlus, Upload } from "lucide-react";
import { useRef, useState } from "react";
import { Button, classes, Empty, PageHead, Progress } from "@/design";
import { MoreButton } from "@/parts/MoreButton";
import { Pending } from "@/parts/Pending";
import { useDropAndPaste } from "@/parts/upload/useDropAndPaste";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import type { Asset } from "@/parts/workflow/queries";
import { assetsTexts } from "@/texts/assets";
import { AssetList } from "./AssetList";
import { DeleteAssetDialog } from "./DeleteAssetDialog";
import { assetsQuery } from "./queries";
import { useUploadAsset } from "./useAssets";

export function AssetsPage() {
  useTitle(assetsTexts.title);
  const query = useInfiniteQuery(assetsQuery);
  const { mayOperate: mayChange } = useRole();
  const upload = useUploadAsset();
  const [confirming, setConfirming] = useState<Asset | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const take = (file: File) => !upload.isPending && upload.mutate(file);
  const isOver = useDropAndPaste(mayChange, take);
  const assets = query.data?.pages.flatMap((page) => page.items) ?? [];
  const button = (look: "go" | "plain") => (
    <Button look={look} busy={upload.isPending} icon={<Upload size={16} />} onClick={() => input.current?.click()}>
      {assetsTexts.upload}
    </Button>
  );
  return (
    <div className={classes("rounded-m", isOver && "outline-2 outline-offset-8 outline-accent outline-dashed")}>
      <PageHead
        title={assetsTexts.title}
        text={isOver ? assetsTexts.dropNow : assetsTexts.text}
        actions={mayChange ? button("go") : undefined}
      />
      {mayChange && (
        <input
          ref={input}
          type="file"
          accept="image/*,video/*,audio/*"
          aria-label={assetsTexts.upload}
          tabIndex={-1}
          className="sr-only"
          onChange={(event) => {
            const file = event.target.files?.[0];
            event.target.value = "";
            if (file !== undefined) take(file);
          }}
        />
      )}
      {upload.isPending && (
        <div className="panel mb-4 grid gap-2 p-4 text-s" role="status">
          <span className="num [overflow-wrap:anywhere]">
            {assetsTexts.uploading(upload.variables.name, upload.percent)}
          </span>
          <Progress percent={upload.percent} label={assetsTexts.uploading(upload.variables.name, upload.percent)} />
        </div>
      )}
      {!query.data ? (
        <Pending query={query} className="h-64" />
      ) : assets.length === 0 ? (
        <Empty
          icon={<ImagePlus size={20} />}
          title={assetsTexts.none}
          text={mayChange ? assetsTexts.noneText : undefined}
          action={mayChange ? button("plain") : undefined}
        />
      ) : (
        <div className="grid gap-4">
          <AssetList assets={assets} onDelete={mayChange ? setConfirming : null} />
          <MoreButton query={query} />
        </div>
      )}
      {confirming && <DeleteAssetDialog asset={confirming} onClose={() => setConfirming(null)} />}
    </div>
  );
}
