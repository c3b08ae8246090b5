// State of a video as values for React.
import { type RefObject, useCallback, useEffect, useState } from "react";

export interface Playback {
  isPlaying: boolean;
  isMuted: boolean;
  time: number;
  /** 0 until the browser knows it. */
  duration: number;
  hasFailed: boolean;
  toggle: () => void;
  toggleSound: () => void;
  seek: (seconds: number) => void;
}

export function usePlayback(ref: RefObject<HTMLVideoElement | null>, url: string): Playback {
  const [state, setState] = useState({ isPlaying: false, isMuted: true, time: 0, duration: 0, hasFailed: false });
  useEffect(() => {
    const video = ref.current;
    if (video === null) return;
    let frame = 0;
    const read = () =>
      setState({
        isPlaying: !video.paused && !video.ended,
        isMuted: video.muted,
        time: video.currentTime,
        duration: Number.isFinite(video.duration) ? video.duration : 0,
        hasFailed: video.error !== null,
      });
    // `timeupdate` comes four times a second, which makes a slider stutter.
    const follow = () => {
      read();
      if (!video.paused && !video.ended) frame = requestAnimationFrame(follow);
    };
    const onPlay = () => {
      cancelAnimationFrame(frame);
      follow();
    };
    const events = ["pause", "ended", "seeked", "volumechange", "loadedmetadata", "durationchange", "error", "emptied"];
    video.addEventListener("play", onPlay);
    for (const event of events) video.addEventListener(event, read);
    read();
    return () => {
      cancelAnimationFrame(frame);
      video.removeEventListener("play", onPlay);
      for (const event of events) video.removeEventListener(event, read);
    };
  }, [ref, url]);
  const toggle = useCallback(() => {
    const video = ref.current;
    if (video === null) return;
    if (video.paused) play(video);
    else video.pause();
  }, [ref]);
  const toggleSound = useCallback(() => {
    if (ref.current !== null) ref.current.muted = !ref.current.muted;
  }, [ref]);
  const seek = useCallback(
    (seconds: number) => {
      if (ref.current !== null) ref.current.currentTime = seconds;
    },
    [ref],
  );
  return { ...state, toggle, toggleSound, seek };
}

/** The browser may refuse to play, or the video may be gone. Neither is an error of the page. */
export function play(video: HTMLVideoElement): void {
  video.play().catch(() => undefined);
}

export function wantsLessMotion(): boolean {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
