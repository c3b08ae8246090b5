import { useState } from "react";
import { Button, CopyButton, Dialog, Tabs } from "@/design";
import { TextWithCode } from "@/parts/TextWithCode";
import { effectCodeTexts } from "@/texts/effect-code";
import type { Snippets } from "./snippets";

type Language = keyof Snippets;
const LANGUAGES: readonly Language[] = ["curl", "python", "typescript"];

interface Props {
  snippets: Snippets;
  /** Whether the effect needs a file that the form does not have yet. */
  isFileMissing: boolean;
  onClose: () => void;
}

/** Shows programs that submit the values of the form. */
export default function CodeDialog({ snippets, isFileMissing, onClose }: Props) {
  const [language, setLanguage] = useState<Language>("curl");
  return (
    <Dialog
      wide
      title={effectCodeTexts.title}
      text={<TextWithCode text={effectCodeTexts.text} />}
      onClose={onClose}
      actions={<Button onClick={onClose}>{effectCodeTexts.close}</Button>}
    >
      <Tabs
        label={effectCodeTexts.language}
        value={language}
        onChange={setLanguage}
        tabs={LANGUAGES.map((each) => ({
          value: each,
          label: effectCodeTexts.languages[each],
          content: (
            <div className="-mt-3 grid gap-2">
              <div className="flex items-center justify-between gap-3">
                <p className="text-s text-muted">
                  <TextWithCode
                    text={each === "curl" && isFileMissing ? effectCodeTexts.needsFile : effectCodeTexts.notes[each]}
                  />
                </p>
                <CopyButton text={snippets[each]} label={effectCodeTexts.copy} word={effectCodeTexts.copyWord} />
              </div>
              {/* Keyboards scroll it, so it takes the focus. */}
              <pre tabIndex={0} data-language={each} className="overflow-x-auto rounded-s border bg-bg p-3 text-s">
                <code>{snippets[each]}</code>
              </pre>
            </div>
          ),
        }))}
      />
    </Dialog>
  );
}
