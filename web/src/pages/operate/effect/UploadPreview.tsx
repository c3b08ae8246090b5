import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "@/api/client";
import { explain } from "@/api/problems";
import { Button, Field, useFieldProps } from "@/design";
import { isAssetType, uploadAsset } from "@/parts/workflow/uploadAsset";
import { assetsTexts } from "@/texts/assets";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { useEffectPreview } from "./useEffectActions";

interface Files {
  after: File;
  before: File | null;
}

/** Two files from this computer. The server copies them, so the list of assets stays unchanged. */
export function UploadPreview({ slug }: { slug: string }) {
  const [after, setAfter] = useState<File | null>(null);
  const [before, setBefore] = useState<File | null>(null);
  const set = useEffectPreview(slug);
  const send = useMutation({
    mutationFn: async (files: Files) => {
      const chosen = [files.after, ...(files.before ? [files.before] : [])];
      const wrong = chosen.find((file) => !isAssetType(file));
      if (wrong) throw new Error(assetsTexts.wrongType(wrong.name));
      const assets = [];
      try {
        for (const file of chosen) assets.push(await uploadAsset(file));
        await set.mutateAsync({ after_asset_id: assets[0]!.id, before_asset_id: assets[1]?.id });
      } finally {
        for (const asset of assets)
          await api
            .DELETE("/api/admin/assets/{asset_id}", { params: { path: { asset_id: asset.id } } })
            .catch(() => undefined);
      }
    },
    onSuccess: () => {
      setAfter(null);
      setBefore(null);
    },
  });
  return (
    <form
      className="grid gap-4"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (after) send.mutate({ after, before });
      }}
    >
      <Field label={texts.uploadAfter} required error={send.error ? explain(send.error) : null}>
        <FileInput key={after === null ? "none" : "chosen"} file={after} onFile={setAfter} />
      </Field>
      <Field label={texts.uploadBefore} hint={texts.beforeHint}>
        <FileInput key={before === null ? "none" : "chosen"} file={before} onFile={setBefore} />
      </Field>
      <Button type="submit" busy={send.isPending} disabled={after === null}>
        {send.isPending ? texts.rendering : texts.usePreview}
      </Button>
    </form>
  );
}

function FileInput({ file, onFile }: { file: File | null; onFile: (file: File | null) => void }) {
  return (
    <div className="grid gap-1">
      <input
        type="file"
        accept="image/*,video/*,audio/*"
        {...useFieldProps()}
        className="w-full min-w-0 text-s text-muted file:mr-3 file:min-h-8 file:rounded-s file:border file:border-line file:bg-panel file:px-2.5 file:font-[550] file:text-text hover:file:bg-hover touch:file:min-h-10"
        onChange={(event) => onFile(event.target.files?.[0] ?? file)}
      />
    </div>
  );
}
