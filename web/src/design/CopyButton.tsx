import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { frameTexts } from "@/texts/frame";
import { Button } from "./Button";

interface Props {
  text: string;
  /** What is copied, for those who do not see the icon: "Copy job id". */
  label: string;
  /** With a word beside the icon. */
  word?: string;
}

export function CopyButton({ text, label, word }: Props) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () => void navigator.clipboard.writeText(text).then(() => setCopied(true));
  return (
    <Button
      look={word ? "plain" : "quiet"}
      size={word ? "s" : "icon"}
      aria-label={copied ? frameTexts.copied : label}
      onClick={copy}
      icon={copied ? <Check size={15} className="text-ok" /> : <Copy size={15} />}
    >
      {word && (copied ? frameTexts.copied : word)}
    </Button>
  );
}
