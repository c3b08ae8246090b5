import { useState } from "react";
import { absoluteTime, Button, Time } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { shareTexts } from "@/texts/share";
import { type ShareLink, useRevokeLink } from "./shares";

/** The valid links to a result. */
export function ShareLinks({ jobId, links }: { jobId: string; links: readonly ShareLink[] }) {
  const [confirming, setConfirming] = useState<ShareLink | null>(null);
  const revoke = useRevokeLink(jobId, () => setConfirming(null));
  return (
    <section className="border-t pt-4">
      <h3 className="mb-1">{shareTexts.active}</h3>
      <ul className="num divide-y">
        {links.map((link) => (
          <li key={link.id} className="flex items-center justify-between gap-4 py-2">
            <div className="min-w-0 text-s">
              <div>
                <Time at={link.created_at} />
                <span className="text-muted">
                  {[link.shows_input && shareTexts.shows.input, link.shows_prompt && shareTexts.shows.prompt]
                    .filter(Boolean)
                    .map((word) => ` · ${word}`)}
                </span>
              </div>
              <div className="text-muted">
                {shareTexts.opened(link.opened)} · {shareTexts.endsAt} <Time at={link.expires_at} />
              </div>
            </div>
            <Button
              size="s"
              look="danger"
              aria-label={shareTexts.revokeLabel(absoluteTime(new Date(link.created_at)))}
              onClick={() => setConfirming(link)}
            >
              {shareTexts.revoke}
            </Button>
          </li>
        ))}
      </ul>
      {confirming && (
        <ConfirmDialog
          danger
          title={shareTexts.revokeTitle}
          text={shareTexts.revokeText}
          action={shareTexts.revoke}
          keep={shareTexts.keep}
          busy={revoke.isPending}
          onConfirm={() => revoke.mutate(confirming.id)}
          onClose={() => setConfirming(null)}
        />
      )}
    </section>
  );
}
