import { useEffect, useRef } from "react";
import type { Media } from "@/parts/media";
import { play, wantsLessMotion } from "./usePlayback";

/** An image, or a silent clip that plays automatically. */
export function LoopingClip({ media }: { media: Media }) {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    if (video.current !== null && !wantsLessMotion()) play(video.current);
  }, [media.url]);
  const style = "absolute inset-0 size-full object-contain";
  if (media.kind !== "video") return <img src={media.url} alt={media.name ?? ""} className={style} />;
  return (
    <video
      ref={video}
      src={media.url}
      poster={media.poster ?? undefined}
      aria-label={media.name}
      muted
      loop
      playsInline
      preload="auto"
      className={style}
    />
  );
}
