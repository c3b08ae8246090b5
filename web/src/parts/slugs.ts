// Makes slugs. Pure.
const MAX_LENGTH = 63;

/** A slug for a name: `Acme Studios (EU)` becomes `acme-studios-eu`. */
export function slugOf(name: string): string {
  return name
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[\u0300-\u036f]/g, "")
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, MAX_LENGTH)
    .replace(/-+$/, "");
}

/** The slug that the user typed; until then one that follows the name. */
export function slugIn({ name, slug }: { name: string; slug: string | null }): string {
  return slug ?? slugOf(name);
}

/** A name from the name of a file: `Upscale.json` becomes `Upscale`. */
export function nameOfFile(file: string): string {
  return file.replace(/\.json$/i, "").slice(0, 200);
}
