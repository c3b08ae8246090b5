import { useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { Download } from "lucide-react";
import type { Schemas } from "@/api/types";
import { Button, Time } from "@/design";
import { BeforeAfter } from "@/parts/BeforeAfter";
import { MediaPlayer } from "@/parts/MediaPlayer";
import type { Media } from "@/parts/media";
import { useTitle } from "@/parts/useTitle";
import { shareTexts } from "@/texts/share";
import { sharedQuery } from "./queries";
import { ShareFrame } from "./ShareFrame";

/** A shared result for anyone with the link. */
export function SharePage() {
  const { token } = useParams({ from: "/share/$token" });
  const { data: shared } = useSuspenseQuery(sharedQuery(token));
  useTitle(shared.title);
  const after = mediaOf(shared.after, shared.title);
  const before = shared.before ? mediaOf(shared.before, shared.title) : null;
  const canCompare =
    before !== null && before.kind === after.kind && (after.kind === "image" || after.kind === "video");
  return (
    <ShareFrame>
      <div className="mb-5 flex flex-wrap items-end justify-between gap-4">
        <div className="min-w-0">
          <h1 className="break-words">{shared.title}</h1>
          {shared.prompt && (
            <p className="mt-1 max-w-prose break-words whitespace-pre-wrap text-muted">{shared.prompt}</p>
          )}
        </div>
        <Button look="go" asChild>
          <a href={after.url} download>
            <Download size={16} aria-hidden />
            {shareTexts.download}
          </a>
        </Button>
      </div>
      <div className="appear">
        {canCompare ? <BeforeAfter before={before} after={after} /> : <MediaPlayer media={after} />}
      </div>
      {(shared.more ?? []).length > 0 && (
        <section className="mt-6">
          <h2 className="mb-3">{shareTexts.more}</h2>
          <div className="grid gap-4 sm:grid-cols-2">
            {(shared.more ?? []).map((file) => (
              <MediaPlayer key={file.url} media={mediaOf(file, shared.title)} />
            ))}
          </div>
        </section>
      )}
      <p className="num mt-4 text-s text-muted">
        {shareTexts.ends} <Time at={shared.expires_at} />
      </p>
    </ShareFrame>
  );
}

function mediaOf(file: Schemas["SharedFile"], name: string): Media {
  return { kind: file.medium, url: file.url, name, poster: file.poster_url, width: file.width, height: file.height };
}
