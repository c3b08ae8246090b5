import { frameTexts } from "@/texts/frame";

/** In the place of a page while its first response is on the way. */
export function PagePending() {
  return (
    <div role="status" className="page-skeleton">
      <span className="sr-only">{frameTexts.loading}</span>
    </div>
  );
}
