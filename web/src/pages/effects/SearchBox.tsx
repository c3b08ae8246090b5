import { Search, X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Button } from "@/design/Button";
import { Input } from "@/design/Input";
import { effectTexts } from "@/texts/effects";

/** Filters while the user types. The key / focuses it. */
export function SearchBox({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  // The text is also state of this component: the URL changes later, and the cursor must not jump.
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || event.metaKey || event.ctrlKey || target.closest("input, textarea, [role=dialog]"))
        return;
      event.preventDefault();
      input.current?.focus();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
  const change = (next: string) => {
    setTyped(next);
    onChange(next);
  };
  return (
    <div className="relative w-full shrink-0 lg:w-64">
      <Search
        size={16}
        aria-hidden
        className="pointer-events-none absolute top-1/2 left-3 -translate-y-1/2 text-muted"
      />
      <Input
        ref={input}
        type="text"
        role="searchbox"
        inputMode="search"
        enterKeyHint="search"
        aria-label={effectTexts.search}
        placeholder={effectTexts.search}
        value={typed}
        onChange={(event) => change(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && (typed === "" ? input.current?.blur() : change(""))}
        className="pr-10 pl-9"
      />
      {typed !== "" && (
        <Button
          look="quiet"
          size="icon"
          aria-label={effectTexts.clearSearch}
          onClick={() => {
            change("");
            input.current?.focus();
          }}
          className="absolute top-0 right-0"
          icon={<X size={16} />}
        />
      )}
    </div>
  );
}
