import { CopyButton } from "@/design";
import { mediaTexts } from "@/texts/media";

/** A text with a copy button. */
export function Reading({ text }: { text: string }) {
  return (
    <div className="relative rounded-m border bg-bg p-5 pr-14">
      <p className="max-w-prose text-l leading-relaxed break-words whitespace-pre-wrap">{text}</p>
      <div className="absolute top-2 right-2">
        <CopyButton text={text} label={mediaTexts.copyText} />
      </div>
    </div>
  );
}
