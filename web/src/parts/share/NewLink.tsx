import { ExternalLink } from "lucide-react";
import { Button, CopyButton, Field, Input } from "@/design";
import { shareTexts } from "@/texts/share";

/** A new link. It cannot be read again later. */
export function NewLink({ url, onAnother }: { url: string; onAnother: () => void }) {
  return (
    <div className="appear grid gap-3">
      <Field label={shareTexts.link} hint={shareTexts.created}>
        <Input readOnly value={url} onFocus={(event) => event.target.select()} className="font-mono text-s!" />
      </Field>
      <div className="flex flex-wrap gap-2">
        <CopyButton text={url} label={shareTexts.copy} word={shareTexts.copy} />
        <Button size="s" asChild>
          <a href={url} target="_blank" rel="noreferrer">
            <ExternalLink size={14} aria-hidden />
            {shareTexts.open}
          </a>
        </Button>
        <Button size="s" look="quiet" onClick={onAnother}>
          {shareTexts.another}
        </Button>
      </div>
    </div>
  );
}
