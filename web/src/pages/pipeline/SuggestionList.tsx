import { classes } from "@/design";
import { editorTexts } from "@/texts/pipelines";
import { placeholder, type Suggestion } from "./variables";

interface Props {
  id: string;
  suggestions: readonly Suggestion[];
  chosen: number;
  onChoose: (name: string) => void;
}

/** Suggestions at the caret. The field keeps the focus. */
export function SuggestionList({ id, suggestions, chosen, onChoose }: Props) {
  return (
    <ul
      id={id}
      role="listbox"
      aria-label={editorTexts.suggestions}
      className="appear absolute top-full left-0 z-30 mt-1 max-h-64 w-full max-w-sm overflow-y-auto rounded-m border bg-panel p-1 shadow-high"
    >
      {suggestions.map(({ name, meaning }, index) => (
        <li
          key={name}
          id={`${id}-${index}`}
          role="option"
          aria-selected={index === chosen}
          className={classes(
            "grid min-h-8 cursor-default content-center rounded-s px-2.5 py-1 touch:min-h-11",
            index === chosen && "bg-hover",
          )}
          // Otherwise the field would lose the focus, and the list would close before the click.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(name)}
        >
          <code>{placeholder(name)}</code>
          <span className="text-xs text-muted">
            {editorTexts.suggestionNames[name] ?? editorTexts.meanings[meaning]}
          </span>
        </li>
      ))}
    </ul>
  );
}
