import { useNavigate } from "@tanstack/react-router";
import { Ellipsis, ExternalLink, EyeOff, Send, Trash2 } from "lucide-react";
import { useState } from "react";
import { Button, Menu, MenuItem, MenuLine } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { LinkButton } from "@/parts/LinkButton";
import type { EffectRecord } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { PublishDialog } from "./PublishDialog";
import { useChangeEffect, useDeleteEffect } from "./useEffectActions";

interface Props {
  effect: EffectRecord;
  mayChange: boolean;
  isDirty: boolean;
}

export function EffectActions({ effect, mayChange, isDirty }: Props) {
  const [dialog, setDialog] = useState<"publish" | "unpublish" | "delete" | null>(null);
  const navigate = useNavigate();
  const close = (action?: { reset: () => void }) => {
    action?.reset();
    setDialog(null);
  };
  const unpublish = useChangeEffect(effect, (changed) => texts.unpublished(changed.name), close);
  const remove = useDeleteEffect(effect, () => void navigate({ to: "/operate/effects" }));
  return (
    <>
      {effect.is_published && (
        <LinkButton to="/effects/$slug" params={{ slug: effect.slug }}>
          <ExternalLink size={16} aria-hidden />
          {texts.open}
        </LinkButton>
      )}
      {mayChange && !effect.is_published && (
        <Button
          look="go"
          icon={<Send size={16} />}
          disabled={isDirty}
          title={isDirty ? texts.saveFirst : undefined}
          onClick={() => setDialog("publish")}
        >
          {texts.publish}
        </Button>
      )}
      {mayChange && (
        <Menu trigger={<Button size="icon" aria-label={texts.actions} icon={<Ellipsis size={18} />} />}>
          {effect.is_published && (
            <MenuItem icon={<EyeOff size={16} />} onSelect={() => setDialog("unpublish")}>
              {texts.unpublish}
            </MenuItem>
          )}
          {effect.is_published && <MenuLine />}
          <MenuItem danger icon={<Trash2 size={16} />} onSelect={() => setDialog("delete")}>
            {texts.delete}
          </MenuItem>
        </Menu>
      )}
      {dialog === "publish" && <PublishDialog effect={effect} onClose={close} />}
      {dialog === "unpublish" && (
        <ConfirmDialog
          danger
          title={texts.unpublishTitle(effect.name)}
          text={texts.unpublishText}
          action={texts.unpublishIt}
          keep={texts.keep}
          busy={unpublish.isPending}
          error={unpublish.error}
          onConfirm={() => unpublish.mutate({ is_published: false })}
          onClose={() => close(unpublish)}
        />
      )}
      {dialog === "delete" && (
        <ConfirmDialog
          danger
          title={texts.deleteTitle(effect.name)}
          text={effect.has_jobs ? texts.deleteHasJobs : texts.deleteText}
          action={!effect.has_jobs && texts.deleteIt}
          keep={texts.keep}
          busy={remove.isPending}
          error={remove.error}
          onConfirm={remove.mutate}
          onClose={() => close(remove)}
        />
      )}
    </>
  );
}
