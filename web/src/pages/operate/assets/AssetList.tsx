import { AudioLines, FileVideo, ImageOff, Trash2 } from "lucide-react";
import { useState } from "react";
import { Badge, Button, type Column, Table, Time } from "@/design";
import { bytes } from "@/parts/upload/acceptance";
import type { Asset } from "@/parts/workflow/queries";
import { assetsTexts } from "@/texts/assets";
import { UseLinks } from "./UseLinks";

const texts = assetsTexts.columns;

export function AssetList({
  assets,
  onDelete,
}: {
  assets: readonly Asset[];
  onDelete: ((asset: Asset) => void) | null;
}) {
  return (
    <Table
      label={assetsTexts.list}
      rows={assets}
      columns={onDelete ? [...COLUMNS, deleteColumn(onDelete)] : COLUMNS}
      rowKey={(asset) => asset.id}
    />
  );
}

const COLUMNS: readonly Column<Asset>[] = [
  {
    name: texts.asset,
    cell: (asset) => (
      <div className="flex items-center gap-3">
        <Thumb asset={asset} />
        <div className="min-w-0">
          {asset.url ? (
            <a
              href={asset.url}
              target="_blank"
              rel="noreferrer"
              aria-label={assetsTexts.open(asset.name)}
              className="font-[550] [overflow-wrap:anywhere] hover:underline"
            >
              {asset.name}
            </a>
          ) : (
            <span className="font-[550] [overflow-wrap:anywhere]">{asset.name}</span>
          )}
          {asset.status === "pending" && (
            <div className="mt-1">
              <Badge tone="warn">{assetsTexts.pending}</Badge>
            </div>
          )}
        </div>
      </div>
    ),
  },
  { name: texts.type, className: "max-lg:hidden", cell: (asset) => asset.mime_type },
  { name: texts.size, right: true, cell: (asset) => <span className="whitespace-nowrap">{bytes(asset.size)}</span> },
  {
    name: texts.uses,
    className: "max-sm:hidden",
    cell: (asset) =>
      asset.used_by?.length ? (
        <UseLinks uses={asset.used_by} most={2} />
      ) : (
        <span className="text-muted">{assetsTexts.unused}</span>
      ),
  },
  {
    name: texts.added,
    right: true,
    className: "max-lg:hidden",
    cell: (asset) => <Time at={asset.created_at} className="whitespace-nowrap" />,
  },
];

function deleteColumn(onDelete: (asset: Asset) => void): Column<Asset> {
  return {
    name: "delete",
    head: <span className="sr-only">{assetsTexts.deleteIt}</span>,
    right: true,
    cell: (asset) => (
      <Button
        look="quiet"
        size="icon"
        aria-label={assetsTexts.delete(asset.name)}
        icon={<Trash2 size={16} />}
        onClick={() => onDelete(asset)}
      />
    ),
  };
}

function Thumb({ asset }: { asset: Asset }) {
  const [isBroken, setBroken] = useState(false);
  const Icon = asset.mime_type.startsWith("video/")
    ? FileVideo
    : asset.mime_type.startsWith("audio/")
      ? AudioLines
      : ImageOff;
  const isImage = asset.mime_type.startsWith("image/") && asset.url && !isBroken;
  return (
    <span className="grid size-12 shrink-0 place-items-center overflow-hidden rounded-s border bg-hover text-muted">
      {isImage ? (
        <img
          src={asset.url ?? undefined}
          alt=""
          loading="lazy"
          decoding="async"
          className="size-full object-cover"
          onError={() => setBroken(true)}
        />
      ) : (
        <Icon size={18} aria-hidden />
      )}
    </span>
  );
}
