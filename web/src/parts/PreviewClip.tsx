import { useEffect, useRef, useState } from "react";
import { classes } from "@/design/classes";
import { play } from "./player/usePlayback";
import { useLessMotion } from "./useLessMotion";

interface Props {
  url: string;
  isPlaying: boolean;
  className?: string;
}

/**
 * A silent clip above its poster. It loads when it first plays and appears once it moves. If the system asks for less
 * motion, only the poster is shown.
 */
export function PreviewClip({ url, isPlaying, className }: Props) {
  const video = useRef<HTMLVideoElement>(null);
  const [isMoving, setMoving] = useState(false);
  const wantsLessMotion = useLessMotion();
  const shouldPlay = isPlaying && !wantsLessMotion;
  useEffect(() => {
    const clip = video.current;
    if (clip === null) return;
    if (shouldPlay) {
      play(clip);
    } else {
      clip.pause();
      setMoving(false);
    }
  }, [shouldPlay]);
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
