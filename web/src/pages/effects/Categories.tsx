import { effectTexts } from "@/texts/effects";

/** Chips that scroll sideways on phones. They are hidden if no effect has a category. */
export function Categories({
  names,
  value,
  onChange,
}: {
  names: readonly string[];
  value: string;
  onChange: (name: string) => void;
}) {
  if (names.length === 0) return null;
  return (
    <div
      role="group"
      aria-label={effectTexts.categories}
      className="-mx-4 flex gap-2 overflow-x-auto px-4 py-1 [scrollbar-width:none] md:mx-0 md:flex-wrap md:px-0"
    >
      {["", ...names].map((name) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === value}
          onClick={() => onChange(name)}
          className="min-h-8 touch:min-h-11 shrink-0 rounded-full! border bg-panel px-3.5 text-s text-muted transition-colors duration-100 hover:text-text aria-pressed:border-text aria-pressed:bg-text aria-pressed:font-[550] aria-pressed:text-bg"
        >
          {name === "" ? effectTexts.all : name}
        </button>
      ))}
    </div>
  );
}
