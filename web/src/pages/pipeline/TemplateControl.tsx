import { type KeyboardEvent, useId, useRef, useState } from "react";
import { classes, useFieldProps } from "@/design";
import type { ControlProps } from "@/parts/form/templates";
import { editorTexts } from "@/texts/pipelines";
import { MarkedText } from "./MarkedText";
import { SuggestionList } from "./SuggestionList";
import { useSurroundings } from "./surroundings";
import { VariableNotes } from "./VariableNotes";
import { completed, completionAt, suggestionsFor } from "./variables";

/** A text field with placeholders. A brace opens the list of variables, and every placeholder is marked. */
export function TemplateControl({ value, onChange, isLine, placeholder }: ControlProps) {
  const surroundings = useSurroundings();
  const field = useFieldProps();
  const box = useRef<HTMLTextAreaElement>(null);
  const listId = useId();
  // Position of the caret after typing. null: the list is closed.
  const [caret, setCaret] = useState<number | null>(null);
  const [chosen, setChosen] = useState(0);
  const completion = caret === null ? null : completionAt(value, caret);
  const suggestions = completion === null ? [] : suggestionsFor(completion.query, surroundings);
  const isOpen = completion !== null && suggestions.length > 0;
  const current = Math.min(chosen, suggestions.length - 1);

  const accept = (name: string) => {
    if (completion === null) return;
    const next = completed(value, completion, name);
    onChange(next.text);
    setCaret(null);
    requestAnimationFrame(() => {
      box.current?.focus();
      box.current?.setSelectionRange(next.caret, next.caret);
    });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (isLine && event.key === "Enter" && !isOpen) event.preventDefault();
    if (!isOpen) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp")
      setChosen((current + (event.key === "ArrowDown" ? 1 : suggestions.length - 1)) % suggestions.length);
    else if (event.key === "Enter" || event.key === "Tab") accept(suggestions[current]!.name);
    else if (event.key === "Escape") setCaret(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const shape = classes(
    "control col-start-1 row-start-1 leading-relaxed break-words whitespace-pre-wrap",
    isLine ? "min-h-9" : "min-h-19",
  );
  return (
    <div className="grid gap-1.5">
      <div className="relative grid">
        <MarkedText text={value} className={shape} />
        <textarea
          ref={box}
          {...field}
          rows={1}
          value={value}
          placeholder={placeholder}
          autoComplete="off"
          aria-autocomplete="list"
          aria-controls={isOpen ? listId : undefined}
          aria-activedescendant={isOpen ? `${listId}-${current}` : undefined}
          className={classes(shape, "field-sizing-content resize-none bg-transparent!")}
          onChange={(event) => {
            onChange(isLine ? event.target.value.replaceAll("\n", " ") : event.target.value);
            setCaret(event.target.selectionStart);
            setChosen(0);
          }}
          onSelect={(event) => event.currentTarget.selectionStart !== caret && setCaret(null)}
          onKeyDown={onKeyDown}
          onBlur={() => setCaret(null)}
        />
        {isOpen && <SuggestionList id={listId} suggestions={suggestions} chosen={current} onChoose={accept} />}
      </div>
      <span role="status" className="sr-only">
        {isOpen ? `${suggestions.length} ${editorTexts.suggestions}` : ""}
      </span>
      <VariableNotes text={value} onReplace={onChange} />
    </div>
  );
}
