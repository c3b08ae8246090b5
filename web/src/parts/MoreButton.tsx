import { Button } from "@/design";
import { commonTexts } from "@/texts/common";
import type { Pages } from "./useVirtualRows";

/** Loads the next page of a list. */
export function MoreButton({ query }: { query: Pick<Pages, "hasNextPage" | "isFetchingNextPage" | "fetchNextPage"> }) {
  if (!query.hasNextPage) return null;
  return (
    <Button className="justify-self-center" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
      {commonTexts.more}
    </Button>
  );
}
