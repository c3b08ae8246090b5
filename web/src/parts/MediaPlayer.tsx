import { useQuery } from "@tanstack/react-query";
import { FileQuestion } from "lucide-react";
import { useRef } from "react";
import { textQuery } from "@/api/texts";
import { Skeleton } from "@/design";
import { mediaTexts } from "@/texts/media";
import { type Media, ratioOf } from "./media";
import { ImageView } from "./player/ImageView";
import { MediaBox } from "./player/MediaBox";
import { PlayerControls } from "./player/PlayerControls";
import { usePlayback } from "./player/usePlayback";
import { Reading } from "./Reading";

interface Props {
  media: Media;
  maxHeight?: string;
  loop?: boolean;
}

/** One file: a video with controls, an image with zoom, a sound or a text. Other files are described in a sentence. */
export function MediaPlayer({ media, maxHeight, loop = true }: Props) {
  switch (media.kind) {
    case "video":
      return <VideoPlayer media={media} maxHeight={maxHeight} loop={loop} />;
    case "image":
      return <ImageView media={media} maxHeight={maxHeight} />;
    case "audio":
      return (
        <div className="panel grid gap-3 p-4">
          {media.poster && <img src={media.poster} alt="" className="h-24 w-full rounded-s" />}
          <audio src={media.url} controls preload="metadata" className="w-full" aria-label={media.name} />
        </div>
      );
    case "text":
      return <TextView url={media.url} />;
    default:
      return <NotShown />;
  }
}

function NotShown() {
  return (
    <div className="panel flex items-center gap-3 p-5 text-muted">
      <FileQuestion size={20} aria-hidden className="shrink-0" />
      {mediaTexts.cannotShow}
    </div>
  );
}

function TextView({ url }: { url: string }) {
  const { data, isError } = useQuery(textQuery(url));
  if (isError) return <NotShown />;
  if (data === undefined) return <Skeleton className="h-24" />;
  return (
    <div className="grid gap-2">
      <Reading text={data.text} />
      {!data.isWhole && <p className="text-s text-muted">{mediaTexts.textGoesOn}</p>}
    </div>
  );
}

function VideoPlayer({ media, maxHeight, loop }: { media: Media; maxHeight?: string; loop: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const video = useRef<HTMLVideoElement>(null);
  const playback = usePlayback(video, media.url);
  return (
    <MediaBox
      ref={box}
      ratio={ratioOf(media)}
      maxHeight={maxHeight}
      controls={<PlayerControls playback={playback} container={box} />}
    >
      <video
        ref={video}
        src={media.url}
        poster={media.poster ?? undefined}
        aria-label={media.name ?? mediaTexts.video}
        onClick={playback.toggle}
        playsInline
        loop={loop}
        preload="metadata"
        className="absolute inset-0 size-full object-contain"
      />
      {playback.hasFailed && (
        <p className="absolute inset-0 grid place-items-center bg-black/70 p-6 text-center text-white">
          {mediaTexts.cannotPlay}
        </p>
      )}
    </MediaBox>
  );
}
