import { useState } from "react";
import { Button } from "@/design";
import { jobTexts } from "@/texts/job";

// About six lines fit beside the result.
const LONG = 280;

/** The prompt of the job. A long prompt opens on demand, so the rest of the page stays visible. */
export function Prompt({ text }: { text: string }) {
  const [isOpen, setOpen] = useState(false);
  const isLong = text.length > LONG || text.split("\n").length > 6;
  return (
    <div className="mb-4 border-l-2 border-line-strong pl-3">
      <blockquote className={`[overflow-wrap:anywhere] whitespace-pre-wrap ${isLong && !isOpen ? "line-clamp-6" : ""}`}>
        {text}
      </blockquote>
      {isLong && (
        <Button size="s" look="quiet" className="mt-1 -ml-2.5" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? jobTexts.showLess : jobTexts.showAll}
        </Button>
      )}
    </div>
  );
}
