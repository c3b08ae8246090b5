import { EllipsisVertical, GitFork, Save, Trash2, Undo2 } from "lucide-react";
import { useState } from "react";
import { Button, Menu, MenuItem } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { LinkButton } from "@/parts/LinkButton";
import { editorTexts } from "@/texts/pipelines";
import type { Pipeline } from "./queries";
import type { useEditor } from "./useEditor";
import { useDeletePipeline } from "./usePipelineActions";

interface Props {
  editor: ReturnType<typeof useEditor>;
  pipeline: Pipeline;
  onDiscard: () => void;
}

export function EditorActions({ editor, pipeline, onDiscard }: Props) {
  const [dialog, setDialog] = useState<"remove" | "discard" | null>(null);
  const remove = useDeletePipeline(pipeline.id);
  const close = () => setDialog(null);
  const isRemoving = dialog === "remove";
  return (
    <>
      <LinkButton to="/runs" search={{ pipeline: pipeline.slug }}>
        <GitFork size={16} aria-hidden />
        {editorTexts.runs}
      </LinkButton>
      <Button
        look="go"
        busy={editor.isSaving}
        disabled={!editor.isDirty}
        onClick={() => void editor.save()}
        icon={<Save size={16} aria-hidden />}
      >
        {editor.isSaving ? editorTexts.saving : editorTexts.save}
      </Button>
      <Menu trigger={<Button size="icon" aria-label={editorTexts.actions} icon={<EllipsisVertical size={18} />} />}>
        <MenuItem disabled={!editor.isDirty} onSelect={() => setDialog("discard")} icon={<Undo2 size={16} />}>
          {editorTexts.discard}
        </MenuItem>
        <MenuItem danger onSelect={() => setDialog("remove")} icon={<Trash2 size={16} />}>
          {editorTexts.remove}
        </MenuItem>
      </Menu>
      {dialog && (
        <ConfirmDialog
          danger
          title={isRemoving ? editorTexts.removeTitle : editorTexts.discardTitle}
          text={isRemoving ? editorTexts.removeText : editorTexts.discardText}
          action={isRemoving ? editorTexts.remove : editorTexts.discard}
          keep={isRemoving ? editorTexts.cancel : editorTexts.keep}
          busy={remove.isPending}
          onConfirm={() => {
            if (isRemoving) remove.mutate();
            else onDiscard();
            close();
          }}
          onClose={close}
        />
      )}
    </>
  );
}
