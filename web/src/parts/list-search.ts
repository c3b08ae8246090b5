// The last filters of each list in this tab, for the way back from the page of one thing.
export const LISTS = [
  "/operate/jobs",
  "/operate/workers",
  "/operate/fleets",
  "/operate/workflows",
  "/operate/effects",
  "/operate/tenants",
  "/operate/users",
  "/runs",
  "/pipelines",
] as const;
export type List = (typeof LISTS)[number];

type Search = Record<string, unknown>;

// Parameters that open a dialog. The link back leaves them out.
const DIALOGS = ["new", "start"];

/** Runs for every opened page. Pages that are not lists are ignored. */
export function rememberList(pathname: string, search: Search, storage: Storage = sessionStorage): void {
  const list = LISTS.find((each) => each === pathname);
  if (list === undefined) return;
  const kept = Object.fromEntries(
    Object.entries(search).filter(([name, value]) => value !== undefined && !DIALOGS.includes(name)),
  );
  try {
    storage.setItem(keyOf(list), JSON.stringify(kept));
  } catch {
    // The storage is full or forbidden, so the link back opens the whole list.
  }
}

export function rememberedSearch(list: List, storage: Storage = sessionStorage): Search {
  try {
    const kept: unknown = JSON.parse(storage.getItem(keyOf(list)) ?? "{}");
    return typeof kept === "object" && kept !== null && !Array.isArray(kept) ? (kept as Search) : {};
  } catch {
    return {};
  }
}

function keyOf(list: List): string {
  return `callsheet:list:${list}`;
}
