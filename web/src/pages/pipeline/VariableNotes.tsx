import { editorTexts } from "@/texts/pipelines";
import { useSurroundings } from "./surroundings";
import { meaningOf, meant, PARENT, PARENT_FILE, placeholder, placesIn } from "./variables";

/** Notes on placeholders that are wrong, new, or similar to a known one. */
export function VariableNotes({ text, onReplace }: { text: string; onReplace: (text: string) => void }) {
  const surroundings = useSurroundings();
  const names = [...new Set(placesIn(text).map((each) => each.name))];
  const notes = names
    .map((name) => ({ name, meaning: meaningOf(name, surroundings), meant: meant(name, surroundings) }))
    .filter(({ meaning }) => meaning === "wrong" || meaning === "new");
  if (notes.length === 0) return null;
  return (
    <ul className="grid gap-1 text-s">
      {notes.map((note) => (
        <li key={note.name} className={note.meaning === "wrong" ? "text-bad" : "text-muted"}>
          {note.meaning === "new"
            ? editorTexts.newName(note.name)
            : note.name === PARENT || note.name === PARENT_FILE
              ? editorTexts.wrongParent(note.name)
              : editorTexts.wrongName(note.name)}{" "}
          {note.meant !== null && (
            <button
              type="button"
              className="min-h-6 font-[550] text-accent underline underline-offset-2"
              onClick={() => onReplace(text.replaceAll(placeholder(note.name), placeholder(note.meant!)))}
            >
              {editorTexts.didYouMean(note.meant)}
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
