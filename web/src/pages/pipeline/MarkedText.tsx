import { classes } from "@/design";
import { useSurroundings } from "./surroundings";
import { type Meaning, meaningOf, placesIn } from "./variables";

const LOOKS: Record<Meaning, string> = {
  prompt: "bg-run-soft",
  seed: "bg-run-soft",
  parent: "bg-run-soft",
  variable: "bg-ok-soft",
  new: "bg-warn-soft",
  wrong: "bg-bad-soft underline decoration-bad decoration-wavy",
};

/** Lies below a field with the same text, letter below letter, so only its marks are visible. */
export function MarkedText({ text, className }: { text: string; className: string }) {
  const surroundings = useSurroundings();
  const places = placesIn(text);
  const pieces = places.flatMap((place, index) => {
    const before = text.slice(places[index - 1]?.end ?? 0, place.start);
    const look = LOOKS[meaningOf(place.name, surroundings)];
    return [
      before,
      <mark key={place.start} className={classes("rounded-[3px] text-transparent", look)}>
        {text.slice(place.start, place.end)}
      </mark>,
    ];
  });
  return (
    <div
      aria-hidden="true"
      className={classes(className, "pointer-events-none border-transparent! text-transparent! select-none")}
    >
      {pieces}
      {text.slice(places[places.length - 1]?.end ?? 0)}
      {/* An empty last line needs its height too. */}
      {"​"}
    </div>
  );
}
