import { Search, X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { classes, Input } from "@/design";
import { commonTexts } from "@/texts/common";

const PAUSE_MS = 250;

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** Width, if the default does not fit. */
  className?: string;
}

/** Searches when the user pauses. `/` focuses it. */
export function SearchField({ label, value, onChange, className = "min-w-52 grow basis-full lg:basis-64" }: Props) {
  const [typed, setTyped] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const sent = useRef(value);
  // The URL changed in another way: the back button, or a cleared filter.
  useEffect(() => {
    if (value !== sent.current) setTyped(value);
    sent.current = value;
  }, [value]);
  useEffect(() => {
    const words = typed.trim();
    if (words === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = words;
      onChange(words);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, onChange]);
  return (
    <div className={classes("relative", className)}>
      <Search
        size={16}
        className="pointer-events-none absolute top-1/2 left-3 -translate-y-1/2 text-muted"
        aria-hidden
      />
      <Input
        ref={input}
        type="search"
        data-search
        value={typed}
        maxLength={200}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && (typed ? setTyped("") : input.current?.blur())}
        aria-label={label}
        placeholder={label}
        className="pl-9! [&::-webkit-search-cancel-button]:hidden"
      />
      {typed && (
        <button
          type="button"
          aria-label={commonTexts.clearSearch}
          onClick={() => {
            setTyped("");
            input.current?.focus();
          }}
          className="absolute top-1/2 right-1 grid size-8 -translate-y-1/2 place-items-center rounded-s text-muted hover:text-text"
        >
          <X size={16} aria-hidden />
        </button>
      )}
    </div>
  );
}
