import { useEffect, useRef, useState } from "react";
import { classes } from "@/design/classes";
import { play } from "./player/usePlayback";

interface Props {
  url: string;
  isPlaying: boolean;
  className?: string;
}

/** A silent clip above its poster. It is loaded when it is first played, and seen once it moves. */
export function PreviewClip({ url, isPlaying, className }: Props) {
  const video = useRef<HTMLVideoElement>(null);
  const [isMoving, setMoving] = useState(false);
  useEffect(() => {
    const clip = video.current;
    if (clip === null) return;
    if (isPlaying) {
      play(clip);
    } else {
      clip.pause();
      setMoving(false);
    }
  }, [isPlaying]);
  return (
    <video
      ref={video}
      src={url}
      muted
      loop
      playsInline
      preload="none"
      tabIndex={-1}
      aria-hidden="true"
      onPlaying={() => setMoving(true)}
      className={classes(className, "transition-opacity duration-150", isMoving ? "opacity-100" : "opacity-0")}
    />
  );
}
