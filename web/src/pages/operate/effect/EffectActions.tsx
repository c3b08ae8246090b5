import { Link, useNavigate } from "@tanstack/react-router";
import { Ellipsis, ExternalLink, EyeOff, Send, Trash2 } from "lucide-react";
import { useState } from "react";
import { explain } from "@/api/problems";
import { Button, Dialog, Menu, MenuItem, MenuLine } from "@/design";
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
  const close = () => setDialog(null);
  const unpublish = useChangeEffect(effect, (changed) => texts.unpublished(changed.name), close);
  const remove = useDeleteEffect(effect, () => void navigate({ to: "/operate/effects" }));
  const problem = dialog === "unpublish" ? unpublish.error : dialog === "delete" ? remove.error : null;
  return (
    <>
      {effect.is_published && (
        <Button asChild>
          <Link to="/effects/$slug" params={{ slug: effect.slug }}>
            <ExternalLink size={16} aria-hidden />
            {texts.open}
          </Link>
        </Button>
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
      <Dialog
        open={dialog === "unpublish" || dialog === "delete"}
        onOpenChange={(open) => {
          if (open) return;
          unpublish.reset();
          remove.reset();
          close();
        }}
        title={dialog === "delete" ? texts.deleteTitle(effect.name) : texts.unpublishTitle(effect.name)}
        text={dialog === "delete" ? (effect.has_jobs ? texts.deleteHasJobs : texts.deleteText) : texts.unpublishText}
        actions={
          <>
            <Button onClick={close}>{texts.keep}</Button>
            {dialog === "delete" && !effect.has_jobs && (
              <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
                {texts.deleteIt}
              </Button>
            )}
            {dialog === "unpublish" && (
              <Button
                look="danger"
                busy={unpublish.isPending}
                onClick={() => unpublish.mutate({ is_published: false })}
              >
                {texts.unpublishIt}
              </Button>
            )}
          </>
        }
      >
        {problem !== null && (
          <p role="alert" className="text-s text-bad">
            {explain(problem)}
          </p>
        )}
      </Dialog>
    </>
  );
}
