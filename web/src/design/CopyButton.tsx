import { Check, Copy, X } from "lucide-react";
import { useEffect, useState } from "react";
import { frameTexts } from "@/texts/frame";
import { Button } from "./Button";
import { copyText } from "./copy";

interface Props {
  text: string;
  /** Name of the button for people who cannot see the icon: "Copy job id". */
  label: string;
  /** Shows a word beside the icon. */
  word?: string;
}

export function CopyButton({ text, label, word }: Props) {
  const [outcome, setOutcome] = useState<"copied" | "notCopied" | null>(null);
  useEffect(() => {
    if (outcome === null) return;
    const timer = setTimeout(() => setOutcome(null), 1500);
    return () => clearTimeout(timer);
  }, [outcome]);
  // A browser may refuse, for example if the page may not use the clipboard.
  const copy = () =>
    void copyText(text).then(
      () => setOutcome("copied"),
      () => setOutcome("notCopied"),
    );
  return (
    <Button
      look={word ? "plain" : "quiet"}
      size={word ? "s" : "icon"}
      aria-label={outcome ? frameTexts[outcome] : label}
      onClick={copy}
      icon={
        outcome === "copied" ? (
          <Check size={15} className="text-ok" />
        ) : outcome === "notCopied" ? (
          <X size={15} className="text-bad" />
        ) : (
          <Copy size={15} />
        )
      }
    >
      {word && (outcome ? frameTexts[outcome] : word)}
    </Button>
  );
}
